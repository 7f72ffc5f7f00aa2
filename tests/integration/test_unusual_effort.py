"""A session that takes an agent more than its sessions usually do, from traces to what is stored and told."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agenteval_collector.model.assembled_trace import AssembledTrace
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.finding import FindingKind
from tests.support.otlp import span, trace_id, turn
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

USUAL_SESSIONS = 30


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def call(trace: int, number: int) -> Span:
    """A call of a tool, each with other arguments, at once."""
    item = span(
        trace,
        number,
        parent=1,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="look",
        gen_ai__tool__call__arguments=json.dumps({"at": number}),
        gen_ai__tool__call__result=f"it is {number}",
    )
    item.start_time_unix_nano = item.end_time_unix_nano = turn(trace, "", "").start_time_unix_nano
    return item


def trace_of(number: int, session: str, calls: int, revision: int = 1) -> AssembledTrace:
    asked = turn(number, "Where is it?", "Here.", session=session)
    return assembled(asked, *(call(number, 2 + each) for each in range(calls)), revision=revision)


def found(scoring: Scoring, session_id: str) -> list[tuple[str, str]]:
    return [
        (each["trace_id"], each["kind"])
        for each in scoring.session(session_id)["findings"]
        if each["kind"] == FindingKind.UNUSUAL_EFFORT
    ]


def have_usual_sessions(scoring: Scoring, count: int = USUAL_SESSIONS) -> None:
    for number in range(1, count + 1):
        scoring.put(trace_of(number, f"s-{number}", calls=2))
    scoring.stage.finalize([f"s-{number}" for number in range(1, count + 1)])


def test_the_trace_that_takes_a_session_beyond_the_usual_says_so_once(scoring: Scoring) -> None:
    have_usual_sessions(scoring)
    for number in (101, 102, 103):
        scoring.put(trace_of(number, "long", calls=2))
    assert found(scoring, "long") == [(trace_id(102).hex(), FindingKind.UNUSUAL_EFFORT)]
    [finding] = [each for each in scoring.session("long")["findings"] if each["kind"] == FindingKind.UNUSUAL_EFFORT]
    assert finding["severity"] == "info"
    assert finding["metadata"]["steps"] == {"value": 4, "percentile": 100, "sessions": USUAL_SESSIONS}
    assert sum(each.kind == FindingKind.UNUSUAL_EFFORT for each in scoring.counted) == 1


def test_with_fewer_sessions_to_compare_with_nothing_is_unusual(scoring: Scoring) -> None:
    have_usual_sessions(scoring, USUAL_SESSIONS - 1)
    scoring.put(trace_of(101, "long", calls=20))
    assert found(scoring, "long") == []


def test_a_later_revision_of_a_trace_is_not_added_to_the_earlier_one(scoring: Scoring) -> None:
    have_usual_sessions(scoring)
    for revision in (1, 2, 3):
        scoring.put(trace_of(101, "late", calls=revision - 1, revision=revision))
    assert found(scoring, "late") == []


def test_what_was_usual_and_what_was_found_outlive_a_restart(scoring: Scoring) -> None:
    have_usual_sessions(scoring)
    scoring.put(trace_of(101, "long", calls=2))
    scoring.restart()
    scoring.stage.find_what_was_left()
    scoring.put(trace_of(102, "long", calls=2))
    scoring.restart()
    scoring.stage.find_what_was_left()
    scoring.put(trace_of(103, "long", calls=2), trace_of(102, "long", calls=3, revision=2))
    assert found(scoring, "long") == [(trace_id(102).hex(), FindingKind.UNUSUAL_EFFORT)]
