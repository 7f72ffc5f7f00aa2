from dataclasses import dataclass
from itertools import count

import pytest
from agenteval_collector.judge.queue.backlog import Backlog, Waiting
from agenteval_collector.model.judge_jobs import JudgeJob
from hypothesis import given
from hypothesis import strategies as st


def waiting(name: str, *, urgent: bool = False, revision: int = 1) -> Waiting:
    return Waiting(job=JudgeJob(trace_id=name, session_id="s", revision=revision, urgent=urgent, pending=()))


def names(backlog: Backlog, now: float = 0.0) -> list[str]:
    """What is taken, in order, until nothing may be taken any more."""
    taken = []
    while (each := backlog.take(now)) is not None:
        taken.append(each.job.trace_id)
    return taken


def test_urgent_jobs_are_first_then_the_oldest() -> None:
    backlog = Backlog(10)
    for name in ("a", "B", "c", "D"):
        assert backlog.add(waiting(name, urgent=name.isupper())) is None
    assert names(backlog) == ["B", "D", "a", "c"]
    assert len(backlog) == 0


@pytest.mark.parametrize(
    ("there", "new", "out", "left"),
    [
        pytest.param("ab", "c", "c", ["a", "b"], id="a new one has no place"),
        pytest.param("aB", "c", "c", ["B", "a"], id="also where one is urgent"),
        pytest.param("ab", "C", "b", ["C", "a"], id="an urgent one displaces the newest that is not"),
        pytest.param("Ba", "C", "a", ["B", "C"], id="the last that is not urgent"),
        pytest.param("AB", "C", "C", ["A", "B"], id="urgent ones are not displaced"),
        pytest.param("ab", "a", None, ["a", "b"], id="another revision needs no place"),
    ],
)
def test_a_full_backlog(there: str, new: str, out: str | None, left: list[str]) -> None:
    backlog = Backlog(2)
    for name in there:
        backlog.add(waiting(name, urgent=name.isupper()))
    refused = backlog.add(waiting(new, urgent=new.isupper()))
    assert (refused.job.trace_id if refused else None) == out
    assert names(backlog) == left


def test_a_newer_revision_takes_the_place_of_the_older_one() -> None:
    backlog = Backlog(10)
    backlog.add(waiting("a", revision=1))
    backlog.add(waiting("b"))
    assert backlog.add(waiting("a", revision=3)) is None
    assert backlog.add(waiting("a", revision=2)) is None
    first = backlog.take(0.0)
    assert first is not None
    assert (first.job.trace_id, first.job.revision) == ("a", 3)
    assert names(backlog) == ["b"]


def test_what_was_put_back_waits_for_its_time_and_keeps_its_age() -> None:
    backlog = Backlog(10)
    backlog.add(waiting("a"))
    backlog.add(waiting("b"))
    first = backlog.take(0.0)
    assert first is not None
    backlog.put_back(first, 5.0)
    assert len(backlog) == 2
    assert backlog.take(4.9) is not None
    assert backlog.next_due() == 5.0
    backlog.add(waiting("c"))
    assert names(backlog, 5.0) == ["a", "c"]
    assert backlog.next_due() is None


def test_what_was_put_back_gives_way_to_a_newer_revision() -> None:
    backlog = Backlog(1)
    backlog.add(waiting("a", revision=1))
    first = backlog.take(0.0)
    assert first is not None
    backlog.add(waiting("a", revision=2))
    backlog.put_back(first, 5.0)
    assert len(backlog) == 1
    newer = backlog.take(9.0)
    assert newer is not None
    assert newer.job.revision == 2


def test_a_delayed_job_can_be_replaced_by_a_newer_revision() -> None:
    backlog = Backlog(10)
    backlog.add(waiting("a", revision=1))
    first = backlog.take(0.0)
    assert first is not None
    backlog.put_back(first, 5.0)
    backlog.add(waiting("a", revision=2))
    assert names(backlog) == ["a"]


def test_a_probe_is_what_was_tried_least() -> None:
    backlog = Backlog(10)
    for name in ("A", "b", "C"):
        backlog.add(waiting(name, urgent=name.isupper()))
    tried = []
    for _ in range(6):
        probe = backlog.take(0.0, probe=True)
        assert probe is not None
        tried.append(probe.job.trace_id)
        probe.tries += 1
        backlog.put_back(probe, 0.0)
    assert tried == ["A", "C", "b", "A", "C", "b"]
    assert names(backlog) == ["A", "C", "b"]
    assert backlog.take(0.0, probe=True) is None


@dataclass
class Entry:
    waiting: Waiting
    arrival: int
    due: float


@given(
    capacity=st.integers(1, 5),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abcdefgh"), st.booleans(), st.integers(1, 3)),
            st.tuples(st.just("take"), st.integers(0, 3), st.booleans(), st.none()),
            st.tuples(st.just("put back"), st.integers(0, 5), st.none(), st.none()),
        ),
        max_size=60,
    ),
)
def test_it_agrees_with_a_list_that_is_searched(capacity: int, steps: list[tuple[str, object, object, object]]) -> None:
    backlog, oracle, taken, arrivals = Backlog(capacity), list[Entry](), list[Entry](), count()
    now = 0.0

    def rank(entry: Entry) -> tuple[bool, int]:
        return not entry.waiting.job.urgent, entry.arrival

    for step, what, choice, revision in steps:
        if step == "add":
            assert isinstance(revision, int)
            new = Entry(waiting(str(what), urgent=bool(choice), revision=revision), next(arrivals), 0.0)
            same = [each for each in oracle if each.waiting.job.trace_id == what]
            refused: Waiting | None = None
            if same:
                if same[0].waiting.job.revision <= revision:
                    oracle.remove(same[0])
                    new.arrival = same[0].arrival
                    oracle.append(new)
            elif len(oracle) < capacity:
                oracle.append(new)
            else:
                others = [each for each in oracle if not each.waiting.job.urgent and not each.waiting.tries]
                refused = new.waiting
                if choice and others:
                    newest = max(others, key=rank)
                    oracle.remove(newest)
                    oracle.append(new)
                    refused = newest.waiting
            assert backlog.add(new.waiting) is refused
        elif step == "take":
            assert isinstance(what, int)
            now += what
            ready = [each for each in oracle if each.due <= now]
            least = min((each.waiting.tries for each in ready), default=0)
            if choice:
                ready = [each for each in ready if each.waiting.tries == least]
            expected = min(ready, key=rank, default=None)
            assert backlog.take(now, probe=bool(choice)) is (expected.waiting if expected else None)
            if expected:
                oracle.remove(expected)
                taken.append(expected)
        elif taken:
            assert isinstance(what, int)
            back = taken.pop(0)
            back.waiting.tries += 1
            back.due = now + what
            backlog.put_back(back.waiting, back.due)
            if all(each.waiting.job.trace_id != back.waiting.job.trace_id for each in oracle):
                oracle.append(back)
        assert len(backlog) == len(oracle)


def test_a_closed_backlog_takes_nothing_new_and_keeps_what_it_has() -> None:
    backlog = Backlog(1)
    backlog.add(waiting("a"))
    backlog.close()
    assert backlog.add(waiting("b", urgent=True)) is None
    assert names(backlog) == ["a"]
