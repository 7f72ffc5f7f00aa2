from dataclasses import dataclass, replace
from itertools import count

import pytest
from agenteval_collector.judge.queue.backlog import Backlog, WaitingJob
from agenteval_collector.model.judge_jobs import JudgeJob
from hypothesis import given
from hypothesis import strategies as st


def job(name: str, *, urgent: bool = False, revision: int = 1) -> JudgeJob:
    return JudgeJob(trace_id=name, session_id="s", revision=revision, urgent=urgent, pending=())


def names(backlog: Backlog, now: float = 0.0) -> list[str]:
    """What is taken, in order, until nothing may be taken any more."""
    taken = []
    while (each := backlog.take(now)) is not None:
        taken.append(each.job.trace_id)
    return taken


def test_urgent_jobs_are_first_then_the_oldest() -> None:
    backlog = Backlog(10)
    for name in ("a", "B", "c", "D"):
        assert backlog.add(job(name, urgent=name.isupper()))
    assert names(backlog) == ["B", "D", "a", "c"]
    assert len(backlog) == 0


@pytest.mark.parametrize(
    ("new", "has_place"),
    [
        pytest.param("c", False, id="a new one"),
        pytest.param("C", False, id="an urgent one"),
        pytest.param("a", True, id="another revision"),
    ],
)
def test_a_full_backlog_has_a_place_for_another_revision_alone(new: str, has_place: bool) -> None:
    backlog = Backlog(2)
    for name in "ab":
        backlog.add(job(name))
    assert backlog.add(job(new, urgent=new.isupper())) is has_place
    assert names(backlog) == ["a", "b"]


def test_a_newer_revision_takes_the_place_of_the_older_one() -> None:
    backlog = Backlog(10)
    backlog.add(job("a", revision=1))
    backlog.add(job("b"))
    assert backlog.add(job("a", revision=3))
    assert backlog.add(job("a", revision=2))
    first = backlog.take(0.0)
    assert first is not None
    assert (first.job.trace_id, first.job.revision) == ("a", 3)
    assert names(backlog) == ["b"]


def test_what_was_put_back_waits_for_its_time_and_keeps_its_age() -> None:
    backlog = Backlog(10)
    backlog.add(job("a"))
    backlog.add(job("b"))
    first = backlog.take(0.0)
    assert first is not None
    backlog.put_back(first, 5.0)
    assert len(backlog) == 2
    assert backlog.take(4.9) is not None
    assert backlog.next_due() == 5.0
    backlog.add(job("c"))
    assert names(backlog, 5.0) == ["a", "c"]
    assert backlog.next_due() is None


def test_what_was_put_back_gives_way_to_a_newer_revision() -> None:
    backlog = Backlog(1)
    backlog.add(job("a", revision=1))
    first = backlog.take(0.0)
    assert first is not None
    backlog.add(job("a", revision=2))
    backlog.put_back(first, 5.0)
    assert len(backlog) == 1
    newer = backlog.take(9.0)
    assert newer is not None
    assert newer.job.revision == 2


def test_a_delayed_job_can_be_replaced_by_a_newer_revision() -> None:
    backlog = Backlog(10)
    backlog.add(job("a", revision=1))
    first = backlog.take(0.0)
    assert first is not None
    backlog.put_back(first, 5.0)
    backlog.add(job("a", revision=2))
    assert names(backlog) == ["a"]


def test_a_probe_is_what_was_not_tried_or_longest_ago() -> None:
    backlog = Backlog(10)
    for name in ("A", "b", "C"):
        backlog.add(job(name, urgent=name.isupper()))
    tried = []
    for now in range(6):
        probe = backlog.take(now, probe=True)
        assert probe is not None
        tried.append(probe.job.trace_id)
        backlog.put_back(probe, now + 0.5)
    assert tried == ["A", "C", "b", "A", "C", "b"]
    assert names(backlog, 6.0) == ["A", "C", "b"]
    assert backlog.take(6.0, probe=True) is None


@dataclass
class Entry:
    job: JudgeJob
    arrival: int
    due: float = 0.0
    taken: WaitingJob | None = None


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
        return not entry.job.urgent, entry.arrival

    for step, what, choice, revision in steps:
        if step == "add":
            assert isinstance(revision, int)
            new = Entry(job(str(what), urgent=bool(choice), revision=revision), next(arrivals))
            same = [each for each in oracle if each.job.trace_id == what]
            if same and same[0].job.revision <= revision:
                oracle.remove(same[0])
                oracle.append(replace(new, arrival=same[0].arrival))
            elif not same and len(oracle) < capacity:
                oracle.append(new)
            assert backlog.add(new.job) is (new.job in [each.job for each in oracle] or bool(same))
        elif step == "take":
            assert isinstance(what, int)
            now += what
            ready = [each for each in oracle if each.due <= now]
            longest_ago = min((each.due for each in ready), default=0.0)
            if choice:
                ready = [each for each in ready if each.due == longest_ago]
            expected = min(ready, key=rank, default=None)
            found = backlog.take(now, probe=bool(choice))
            assert (found and found.job) is (expected and expected.job)
            if expected:
                expected.taken = found
                oracle.remove(expected)
                taken.append(expected)
        elif taken:
            assert isinstance(what, int)
            back = taken.pop(0)
            assert back.taken is not None
            back.due = now + what
            backlog.put_back(back.taken, back.due)
            if all(each.job.trace_id != back.job.trace_id for each in oracle):
                oracle.append(back)
        assert len(backlog) == len(oracle)


def test_a_closed_backlog_takes_nothing_new_and_keeps_what_it_has() -> None:
    backlog = Backlog(1)
    backlog.add(job("a"))
    backlog.close()
    assert backlog.add(job("b", urgent=True))
    assert names(backlog) == ["a"]
