"""The hit rate of an agent's error findings, from a real store: whose word counts, and of which sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.figures.hit_rate import FailureRate, hit_rate
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.labels import Label
from agenteval_collector.model.runs import RunReport
from agenteval_collector.stores.session_endings import read_ends
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from otel_agenteval.outcome import JudgedPart
from tests.support.otlp import trace_id, turn
from tests.support.referring import PENDING, Referring, judged, judgement
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

AGENT = "planner"
ANSWERS = ("Yes, you may.", "The parcel left Berlin on Monday.", "Our shop opens at nine.")


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path, judging=Referring({"task_completion": PENDING}))
    yield made
    made.close()


def trace(number: int, session: str | None = None, *, raises: bool = False, **attributes: Any) -> AssembledTrace:
    """A trace of a session of its own, unless it is named; double underscores are dots."""
    answered = None if raises else ANSWERS[number % len(ANSWERS)]
    root = turn(number, "May I have my money back?", answered, session=session or f"s-{number}")
    if raises:
        root.status.CopyFrom(SpanStatus(code=SpanStatus.STATUS_CODE_ERROR, message="boom"))
    for key, value in attributes.items():
        held = AnyValue(bool_value=value) if isinstance(value, bool) else AnyValue(string_value=value)
        root.attributes.append(KeyValue(key=key.replace("__", "."), value=held))
    return assembled(root, resource=Resource().SerializeToString())


def run_of(number: int) -> dict[str, Any]:
    return {"agenteval__task__id": "refund", "agenteval__run__id": str(number)}


def report(scoring: Scoring, number: int, success: bool, at: int | None = None) -> None:
    scoring.store.report_run(
        RunReport(task_id="refund", run_id=str(number), success=success, agent=AGENT, reported_at=at)
    )


def judge(scoring: Scoring, number: int, score: float) -> None:
    [job] = [job for job in scoring.referred if job.trace_id == trace_id(number).hex()]
    scoring.stage.store_judgements([judgement(job, judged(score))])


def label(scoring: Scoring, number: int, value: float, name: str = "task_completion") -> None:
    scoring.store.label(Label(trace_id=trace_id(number).hex(), name=name, value=value, author="ann"))


def counts(scoring: Scoring) -> tuple[int, int, int, int]:
    """Failed and all sessions with an error finding, failed and all sessions without one."""
    found = scoring.queries.hit_rate(AGENT)
    assert found is not None
    with_error, without = found["with_error"], found["without_error"]
    return with_error["failed"], with_error["sessions"], without["failed"], without["sessions"]


def test_sessions_with_an_error_are_told_from_those_without(scoring: Scoring) -> None:
    scoring.put(*(trace(number, raises=number % 4 == 0, **run_of(number)) for number in range(1, 41)))
    for number in range(1, 41):
        report(scoring, number, success=number % 4 != 0 or number == 40)
    scoring.put(trace(99, raises=True))
    assert counts(scoring) == (9, 10, 0, 30)
    found = scoring.queries.hit_rate(AGENT)
    assert found is not None
    assert found["with_error"]["rate"] == 0.9
    interval = found["with_error"]["interval"]
    assert interval is not None
    low, high = interval
    assert 0.55 < low < 0.9 < high < 1.0
    assert scoring.queries.hit_rate("nobody") is None


def test_nothing_is_said_before_enough_ends_are_known(scoring: Scoring) -> None:
    scoring.put(*(trace(number, **run_of(number)) for number in range(1, 31)))
    for number in range(1, 30):
        report(scoring, number, success=True)
    assert scoring.queries.hit_rate(AGENT) is None
    report(scoring, 30, success=True)
    assert counts(scoring) == (0, 0, 0, 30)


@pytest.fixture
def many(scoring: Scoring) -> Scoring:
    """Thirty sessions that are known to have succeeded; what a test adds is number 50."""
    scoring.put(*(trace(number, **run_of(number)) for number in range(1, 31)))
    for number in range(1, 31):
        report(scoring, number, success=True)
    return scoring


def test_what_the_judge_says_counts_where_nobody_else_says_anything(many: Scoring) -> None:
    many.put(trace(50))
    assert counts(many) == (0, 0, 0, 30)
    judge(many, 50, 0.1)
    assert counts(many) == (0, 0, 1, 31)
    label(many, 50, 1.0, name="coherence")
    assert counts(many) == (0, 0, 1, 31)
    label(many, 50, 1.0)
    assert counts(many) == (0, 0, 0, 31)


@pytest.mark.parametrize("part", [JudgedPart.ESCALATED, None])
def test_the_judge_is_not_heard_on_what_was_not_drawn_at_random(tmp_path: Path, part: JudgedPart | None) -> None:
    scoring = Scoring(tmp_path, judging=Referring({"task_completion": PENDING}, part))
    try:
        scoring.put(*(trace(number, **run_of(number)) for number in range(1, 31)), trace(50))
        for number in range(1, 31):
            report(scoring, number, success=True)
        judge(scoring, 50, 0.1)
        assert counts(scoring) == (0, 0, 0, 30)
    finally:
        scoring.close()


def test_one_failed_trace_fails_its_session(many: Scoring) -> None:
    many.put(trace(50, "s"), trace(51, "s"), trace(52, "s"))
    judge(many, 50, 0.9)
    judge(many, 51, 0.1)
    assert counts(many) == (0, 0, 1, 31)
    label(many, 50, 0.9)
    label(many, 52, 0.0)
    assert counts(many) == (0, 0, 1, 31)


def test_the_newest_report_on_a_run_counts_before_labels_and_what_its_spans_say(many: Scoring) -> None:
    many.put(trace(50, **run_of(50), agenteval__run__success=False))
    assert counts(many) == (0, 0, 1, 31)
    label(many, 50, 1.0)
    assert counts(many) == (0, 0, 1, 31)
    now = many.clock.now()
    report(many, 50, success=False, at=now - 2)
    report(many, 50, success=True, at=now - 1)
    assert counts(many) == (0, 0, 0, 31)


def test_only_the_newest_sessions_are_looked_at(many: Scoring) -> None:
    many.clock.advance(60)
    many.put(trace(50, **run_of(50)))
    report(many, 50, success=False)
    with many.store.outside.snapshot() as connection:
        found = hit_rate(read_ends(connection, AGENT, newest=30))
    assert found is not None
    assert found.without_error == FailureRate(sessions=30, failed=1)


def test_a_listing_says_how_many_scores_of_the_judge_are_low(many: Scoring) -> None:
    many.put(trace(50, "s"), trace(51, "s"))
    judge(many, 50, 0.1)
    judge(many, 51, 0.9)
    session = many.session("s")
    assert (session["judged_failures"], session["flagged_traces"]) == (1, [trace_id(50).hex()])
    [listed] = [item for item in many.queries.sessions().items if item["session_id"] == "s"]
    assert listed["judged_failures"] == 1
