"""Sessions take turns at the evaluation."""

from agenteval_collector.evaluation.fair_queue import FairQueue
from hypothesis import given
from hypothesis import strategies as st

Item = tuple[int, tuple[str, ...] | None]
"""Number of its arrival, and what it is of; None: nothing overtakes it, and it overtakes nothing."""

KINDS = st.one_of(st.none(), st.lists(st.sampled_from("abcd"), max_size=2, unique=True).map(tuple))
STEPS = st.lists(st.one_of(KINDS, st.just("take")), max_size=60)


def line_of(*kinds: tuple[str, ...] | None) -> FairQueue[Item]:
    line: FairQueue[Item] = FairQueue(lambda item: item[1])
    for number, kind in enumerate(kinds):
        line.append((number, kind))
    return line


def taken(line: FairQueue[Item]) -> list[int]:
    return [line.popleft()[0] for _ in range(len(line))]


def test_what_is_of_different_ones_keeps_its_order() -> None:
    assert taken(line_of(("a",), ("b",), (), ("c",))) == [0, 1, 2, 3]


def test_who_comes_late_does_not_wait_for_all_of_another_one() -> None:
    line = line_of(*[("heavy",)] * 100)
    first = [line.popleft()[0] for _ in range(10)]
    line.append((100, ("light",)))
    line.append((101, ("light",)))
    assert first == [*range(10)]
    assert taken(line)[:4] == [100, 10, 101, 11]


def test_nothing_gets_past_what_stays_behind_all_that_came_before() -> None:
    line = line_of(("a",), ("a",), ("a",), None, ("b",), ("a",))
    assert taken(line) == [0, 1, 2, 3, 4, 5]


def test_it_remembers_nobody_of_whom_nothing_waits() -> None:
    line = line_of(("last",), ("last",))
    for number in range(1_000):
        line.append((number, (f"session-{number}",)))
        line.popleft()
    assert len(line._last) == len(line) == 2


@given(STEPS)
def test_all_come_out_once_and_nothing_overtakes_what_is_of_the_same(steps: list[tuple[str, ...] | str | None]) -> None:
    line, waiting, number = line_of(), list[Item](), 0
    for step in steps:
        if isinstance(step, str):
            if waiting:
                item = line.popleft()
                before = waiting[: waiting.index(item)]
                assert not [each for each in before if _is_ordered(each, item)]
                waiting.remove(item)
            continue
        waiting.append((number, step))
        line.append(waiting[-1])
        number += 1
        assert line[0] in waiting
    assert sorted(taken(line)) == [each for each, _ in waiting]


def _is_ordered(first: Item, second: Item) -> bool:
    return first[1] is None or second[1] is None or bool({*first[1]} & {*second[1]})


@given(st.lists(st.sampled_from("abcd"), max_size=60), st.integers(0, 60))
def test_who_is_new_waits_for_one_turn_of_each_other(of: list[str], count: int) -> None:
    line = line_of(*[(each,) for each in of])
    for _ in range(min(count, len(of))):
        line.popleft()
    line.append((99, ("new",)))
    assert taken(line).index(99) <= len({*of})
