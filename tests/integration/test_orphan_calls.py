"""Tool spans in traces of their own: neither turns nor sessions, and counted once with the run that asked for them."""

import json
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.otlp import START, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

SECOND = 1_000_000_000


def tool(trace: int, *, call_id: str = "c-1", failed: bool = False) -> Span:
    item = span(
        trace, 1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="refund", gen_ai__tool__call__id=call_id
    )
    item.start_time_unix_nano, item.end_time_unix_nano = START + SECOND, START + 2 * SECOND
    if failed:
        item.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="no such order"))
    return item


def run(trace: int, *, call_id: str = "c-1") -> list[Span]:
    """A run whose model asks for the tool, and goes on without its span."""
    root = turn(trace, "refund it", "done", session="s-1", at=START)
    root.end_time_unix_nano = START + 5 * SECOND
    del root.attributes[-1], root.attributes[-1]
    asked = [{"role": "assistant", "parts": [{"type": "tool_call", "id": call_id, "name": "refund", "arguments": {}}]}]
    model = span(trace, 2, parent=1, gen_ai__operation__name="chat", gen_ai__output__messages=json.dumps(asked))
    return [root, model]


def calls(collector: RunningCollector) -> dict[str, float]:
    """The tool calls that were counted, by agent."""
    lines = collector.get("/metrics").splitlines()
    counted = [line for line in lines if line.startswith("agenteval_agent_tool_calls_total{")]
    return {line.partition('gen_ai_agent_name="')[2].partition('"')[0]: float(line.split()[-1]) for line in counted}


def test_a_tool_alone_is_no_turn_and_no_session(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(tool(1, failed=True)))
        document = collector.scored(trace_id(1).hex())
        assert (document["turns"], document["agent"], document["agents"]) == ([], None, [])
        assert [(each["name"], each["outcome"]) for each in document["tools_called"]] == [("refund", "failed")]
        assert [(each["kind"], each["turn"]) for each in document["findings"]] == [("tool_failed", None)]
        assert collector.get("/api/v1/sessions")["items"] == []
        assert collector.get("/api/v1/agents")["items"] == []
        assert "agenteval_traces_total" not in collector.get("/metrics").replace("# TYPE", "").replace("# HELP", "")


def test_it_counts_once_with_the_run_that_asked_for_it_whichever_comes_first(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*run(1, call_id="c-1")))
        collector.scored(trace_id(1).hex())
        collector.send(traces(tool(2, call_id="c-1")))
        collector.send(traces(tool(3, call_id="c-2")))
        for number in (2, 3):
            collector.scored(trace_id(number).hex())
        collector.send(traces(*run(4, call_id="c-2")))
        collector.scored(trace_id(4).hex())
        assert calls(collector) == {"planner": 2}
        assert [each["agent"] for each in collector.get("/api/v1/agents")["items"]] == ["planner"]
        [session] = collector.get("/api/v1/sessions")["items"]
        assert (session["session_id"], session["trace_count"]) == ("s-1", 2)


def test_what_a_killed_run_leaves_is_still_its_turn(tmp_path: Path) -> None:
    """Its root never came, so the tool's span names a parent."""
    with RunningCollector(tmp_path) as collector:
        left = tool(1)
        left.parent_span_id = b"parent.."
        collector.send(traces(left))
        document = collector.scored(trace_id(1).hex())
        assert (len(document["turns"]), document["agent"]) == (1, "shop")
        assert "unfinished" in {each["kind"] for each in document["findings"]}
