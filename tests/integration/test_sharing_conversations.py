"""Traces of a conversation that no id names, evaluated by different processes at the same time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import News

from tests.support.otlp import trace_id
from tests.support.scoring import Scoring, assembled
from tests.support.turns import Call, turn_of


class OneOfSeveral(EverySession):
    """All sessions, but other processes evaluate, too."""

    is_all = False


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[tuple[Scoring, Scoring]]:
    made = Scoring(tmp_path, own_sessions=OneOfSeveral()), Scoring(tmp_path, own_sessions=OneOfSeveral())
    yield made
    for each in made:
        each.close()


def conversation() -> Sequence[AssembledTrace]:
    """Three model calls, each sent all that was said before."""
    return [assembled(each) for each in turn_of([Call("oslo", "rain"), Call("rome", "sun")], whole=True)]


def before_its_next_commit(scoring: Scoring, others: Iterator[None], patch: pytest.MonkeyPatch) -> list[Commit]:
    """Have others do something between what a process looks up and each of its commits; returns what it commits."""
    commit, commits = scoring.store.commit, list[Commit]()

    def late(given: Commit) -> News:
        commits.append(given)
        next(others, None)
        return commit(given)

    patch.setattr(scoring.store, "commit", late)
    return commits


def test_a_trace_joins_what_another_process_keeps_at_the_same_time(
    processes: tuple[Scoring, Scoring], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = processes
    first, second, third = conversation()

    def others() -> Iterator[None]:
        yield other.put(first, second)

    commits = before_its_next_commit(mine, others(), monkeypatch)
    mine.put(third)
    session = mine.session(trace_id(1).hex())
    assert session["trace_ids"] == [trace_id(number).hex() for number in (1, 2, 3)]
    assert len(commits) == 2
    assert mine.session(trace_id(3).hex()) is None


def test_what_concerns_no_trace_of_this_process_makes_it_do_nothing_again(
    processes: tuple[Scoring, Scoring], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = processes
    first, second, _ = conversation()
    elsewhere = [assembled(each) for each in turn_of([], first=10)]
    mine.put(first)

    def others() -> Iterator[None]:
        yield other.put(*elsewhere)

    commits = before_its_next_commit(mine, others(), monkeypatch)
    mine.put(second)
    assert len(commits) == 1
    assert len(mine.session(trace_id(1).hex())["trace_ids"]) == 2


def test_a_trace_that_names_its_session_takes_those_of_another_process_along(
    processes: tuple[Scoring, Scoring],
) -> None:
    mine, other = processes
    named = [assembled(each) for each in turn_of([], first=10, session="s")]
    mine.put(*named)  # All of the service name their sessions, as far as this process knows.
    first, second, _ = conversation()
    other.put(first)
    [naming] = [assembled(each) for each in turn_of([Call("oslo", "rain")], whole=True, session="t")][1:]
    assert naming.trace_id == second.trace_id
    mine.put(naming)
    assert len(mine.session("t")["trace_ids"]) == 2
