"""Show that what the evaluation cannot store costs no other trace, and leaves the sessions in memory right."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from agenteval_collector.app.judge import make_judging
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.evaluation.sessions.session import added_up, taken_up
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import News
from agenteval_collector.runtime.errors import CollectorError, PermanentError, Superseded, Unavailable
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_agenteval.metrics.signals import merge_weights
from otel_agenteval.outcome import SubjectKind
from tests.support.otlp import trace_id, turn
from tests.support.scoring import Scoring, assembled

JUDGE: dict[str, Any] = {"judge": {"base_url": "http://127.0.0.1:9/v1", "sample": 0.0, "escalate": 1.0}}
REFUSED = PermanentError("the store does not take these values")
TAKEN_OVER = Superseded("another process has the sessions by now")

Refuse: TypeAlias = Callable[[CollectorError, Callable[[Any], bool]], None]
"""Takes an error, and which commits and ends of sessions the store refuses with it."""


class OneOfSeveral(EverySession):
    """Evaluates all sessions, and counts how often another process took over."""

    def __init__(self) -> None:
        self.taken_over = 0

    def superseded(self) -> None:
        self.taken_over += 1


@pytest.fixture
def own() -> OneOfSeveral:
    return OneOfSeveral()


@pytest.fixture
def scoring(tmp_path: Path, own: OneOfSeveral) -> Iterator[Scoring]:
    made = Scoring(tmp_path, own_sessions=own, **JUDGE)
    made.judging = make_judging(made.settings, made.store, made.telemetry)
    made.restart()
    yield made
    made.close()


@pytest.fixture
def refuse(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    commit_to_store, finalize_in_store = scoring.store.commit, scoring.store.finalize

    def refuse(error: CollectorError, is_refused: Callable[[Any], bool]) -> None:
        def commit(commit: Commit) -> News:
            if is_refused(commit):
                raise error
            return commit_to_store(commit)

        def finalize(session_ids: Sequence[str]) -> News:
            if is_refused(session_ids):
                raise error
            return finalize_in_store(session_ids)

        monkeypatch.setattr(scoring.store, "commit", commit)
        monkeypatch.setattr(scoring.store, "finalize", finalize)

    return refuse


def plain(number: int, session: str = "s") -> Any:
    return assembled(turn(number, f"what of {number}?", f"this is {number}", session=session))


def failing(number: int, session: str = "s") -> Any:
    failed = turn(number, "and?", None, session=session)
    failed.status.code = Status.STATUS_CODE_ERROR
    return assembled(failed)


def has_trace(number: int) -> Callable[[Any], bool]:
    def is_in(step: Any) -> bool:
        return isinstance(step, Commit) and trace_id(number).hex() in {each.trace_id for each in step.traces}

    return is_in


def is_judged_after_all(step: Any) -> bool:
    """Whether the step only lets outcomes of earlier traces wait for the judge."""
    return isinstance(step, Commit) and bool(step.evaluations) and not step.traces


def assert_kept_sums_are_those_of_all_traces(scoring: Scoring) -> None:
    stored, weights = scoring.store.session("s"), merge_weights({"coherence": 0.0})
    assert stored is not None
    assert stored.sums is not None
    kept = taken_up(stored.state, stored.sums, weights)
    slow = added_up(stored.state, scoring.store.session_traces("s"), weights)
    assert kept is not None
    assert kept.scores.save() == slow.scores.save()
    assert kept.part == slow.part


def test_a_trace_that_cannot_even_be_stored_as_failed_holds_up_none_behind_it(scoring: Scoring, refuse: Refuse) -> None:
    refuse(REFUSED, has_trace(2))
    scoring.put(*map(plain, (1, 2, 3, 4)))
    ids = [trace_id(number).hex() for number in (1, 3, 4)]
    assert scoring.trace(trace_id(2).hex()) is None
    assert scoring.scored == [(each, 1) for each in ids]
    assert scoring.session("s")["trace_ids"] == ids


def test_what_cannot_be_judged_after_all_leaves_the_session_as_it_is_stored(scoring: Scoring, refuse: Refuse) -> None:
    scoring.put(plain(1))
    refuse(REFUSED, is_judged_after_all)
    scoring.put(failing(2))
    scoring.put(plain(3))
    assert_kept_sums_are_those_of_all_traces(scoring)


def test_a_takeover_is_noticed_by_whatever_is_committed(scoring: Scoring, own: OneOfSeveral, refuse: Refuse) -> None:
    scoring.put(plain(1), plain(2, session="other"))
    refuse(TAKEN_OVER, is_judged_after_all)
    scoring.put(failing(3))
    assert own.taken_over == 1
    found = scoring.store.judged.left_out([trace_id(2).hex()], [], 10)
    scoring.stage.start()
    with pytest.raises(Unavailable):
        scoring.inbox.judge_again(found).result(10)
    scoring.stage.shutdown()
    assert own.taken_over == 2


def test_a_session_that_cannot_be_finalized_holds_up_no_other_one(scoring: Scoring, refuse: Refuse) -> None:
    scoring.put(plain(1, "first"), plain(2, "second"), plain(3, "third"), failing(4, "fourth"))
    refuse(REFUSED, lambda step: isinstance(step, list) and "second" in step)
    for name in ("first", "second", "third", "fourth"):
        scoring.inbox.end_session(name, marked=False)
    scoring.stage.start()
    scoring.stage.shutdown()
    final = {each.evaluation.subject_id for each in scoring.emitted if each.final}
    assert final == {"first", "third"}
    goals = [job.trace_id for job in scoring.referred if job.subject is SubjectKind.SESSION]
    assert goals == ["fourth"], "its scores wait for the judge, who is asked though the first attempt failed"
