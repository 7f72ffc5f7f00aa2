"""The first decisive step of sessions in which nothing is flagged, and that failed as their run says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.assembled_trace import AssembledTrace
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.otlp import span, trace_id, turn
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def said(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def trace(*, success: str, run_error: str | None = None, says: str = "It is done.") -> AssembledTrace:
    """The planner has an expert run a tool and reply; the run says how it ended."""
    root = turn(1, "What do 4 tickets cost?", "Done.", session="s")
    for key in ("task.id", "run.id", "run.success"):
        value = success if key == "run.success" else "1"
        root.attributes.append(KeyValue(key=f"agenteval.{key}", value=AnyValue(string_value=value)))
    expert = span(1, 2, parent=1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="expert")
    tool = span(1, 3, parent=2, gen_ai__operation__name="execute_tool", gen_ai__tool__name="run")
    reply = span(
        1, 4, parent=2, gen_ai__operation__name="chat", gen_ai__request__model="m",
        gen_ai__input__messages=said("user", "Go."), gen_ai__output__messages=said("assistant", says),
    )  # fmt: skip
    if run_error is not None:
        tool.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=run_error))
    for number, inner in enumerate((expert, tool, reply), 1):
        inner.start_time_unix_nano = root.start_time_unix_nano + number
        inner.end_time_unix_nano = root.start_time_unix_nano + number + 1
    expert.end_time_unix_nano += 9
    return assembled(tool, reply, expert, root)


def causes(scoring: Scoring) -> list[Any]:
    """The cause in the document of the session, and in that of its trace."""
    return [scoring.session("s")["cause"], scoring.trace(trace_id(1).hex())["cause"]]


def test_a_failed_run_has_the_failed_call_as_its_cause(scoring: Scoring) -> None:
    scoring.put(trace(success="false", run_error="no such shell"))
    cause = {
        "trace_id": trace_id(1).hex(), "span_id": span(1, 3).span_id.hex(), "turn": 0, "agent": "expert",
        "what": "run failed: no such shell", "told_by": "tool_failed",
    }  # fmt: skip
    assert causes(scoring) == [cause, cause]


def test_a_failed_run_has_figures_that_nobody_said_as_its_cause(scoring: Scoring) -> None:
    scoring.put(trace(success="false", says="A ticket is 213.50, the fee 1,100."))
    cause = {
        "trace_id": trace_id(1).hex(), "span_id": span(1, 4).span_id.hex(), "turn": 0, "agent": "expert",
        "what": "states 213.50, 1,100, which nobody said before", "told_by": "unsaid_figures",
    }  # fmt: skip
    assert causes(scoring) == [cause, cause]


@pytest.mark.parametrize(
    "so", [{"success": "true", "run_error": "no such shell"}, {"success": "true", "says": "213.50 and 1,100."}]
)
def test_a_run_that_succeeded_has_no_cause(scoring: Scoring, so: dict[str, str]) -> None:
    scoring.put(trace(**so))
    assert causes(scoring) == [None, None]


def test_a_failed_run_in_which_nothing_shows_it_has_no_cause(scoring: Scoring) -> None:
    scoring.put(trace(success="false"))
    assert causes(scoring) == [None, None]
