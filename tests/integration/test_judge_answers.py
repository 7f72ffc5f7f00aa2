"""The judge's answers in the store: how long they stay, and with what they go."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.judge_jobs import Answer, JudgeJob, Judgement
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.store import Store

from otel_agenteval.outcome import SubjectKind
from tests.integration.test_store import hex_id, record, score, session_update
from tests.support.clock import ManualClock
from tests.support.databases import database_in

pytestmark = pytest.mark.databases

ANSWER = Answer(reply={"reason": "a\0b", "score": 0.5}, model="m-2026", temperature=None)
TRACE = JudgeJob(trace_id=hex_id(1), session_id="s", revision=1, urgent=False, pending=())
SESSION = JudgeJob(subject=SubjectKind.SESSION, trace_id="s", session_id="s", revision=1, urgent=False, pending=())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = Store(database_in(tmp_path), clock, retention=100.0, events_of=no_events)
    update = session_update("s")
    store.commit(Commit(traces=[record(1, session_id="s")], evaluations=[score(1)], sessions={"s": update}))
    yield store
    store.shutdown()


def test_an_answer_is_known_by_its_key(store: Store) -> None:
    assert store.answers.answer("k") is None
    for job, key in ((TRACE, "k"), (SESSION, "l")):
        store.answers.keep(key, ANSWER, job)
        assert store.answers.answer(key) == ANSWER
    assert store.answers.answer("m") is None


@pytest.mark.parametrize("job", [TRACE, SESSION], ids=["trace", "session"])
def test_it_goes_with_what_was_asked_about_and_does_not_come_back(store: Store, job: JudgeJob) -> None:
    store.answers.keep("k", ANSWER, job)
    store.deletions.erase([hex_id(1)], ["s"])
    assert store.answers.answer("k") is None
    store.answers.keep("k", ANSWER, job)
    assert store.answers.answer("k") is None


def test_it_goes_with_the_content(store: Store, clock: ManualClock) -> None:
    store.answers.keep("k", ANSWER, TRACE)
    assert store.deletions.forget_content(clock.now() + 1, 10) == 1
    assert store.answers.answer("k") is None


def test_it_is_forgotten_as_what_was_asked_is(store: Store, clock: ManualClock) -> None:
    for age, key in ((60, "older"), (60, "newer")):
        store.answers.keep(key, ANSWER, TRACE)
        clock.advance(age)
    store.commit(Commit(judgements=[Judgement(job=TRACE, evaluations=(), exchanges=())]))
    assert store.answers.answer("older") is None
    assert store.answers.answer("newer") == ANSWER
