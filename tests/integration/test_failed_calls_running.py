"""Failed model calls, told while their trace runs: once, whatever the complete trace says of them later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.integration.test_loops_running import OPEN, next_finding, watch
from tests.support.looping import root_span, tool_span
from tests.support.otlp import marked, span, span_id, trace_id, traces
from tests.support.running_collector import RunningCollector

LIMITED = "429: too many requests"


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path, **OPEN) as collector:
        yield collector


def model_call(number: int, *, parent: int = 1, error: str | None = LIMITED, **attributes: Any) -> Span:
    item = span(1, number, parent=parent, gen_ai__operation__name="chat", gen_ai__request__model="small", **attributes)
    if error is not None:
        item.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=error))
    return item


def findings(collector: RunningCollector) -> list[tuple[str, str | None, str | None]]:
    document = collector.get(f"/api/v1/traces/{trace_id(1).hex()}")
    return [(each["kind"], each["span_id"], each["mode"]) for each in document["findings"]]


def counted(collector: RunningCollector) -> float:
    lines = collector.get("/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if 'total{agenteval_finding_kind="model_failed"' in line)


def complete(collector: RunningCollector, *calls: Span) -> None:
    """Send the run around the calls, and those that are not sent yet."""
    root = root_span(1, session="s-1")
    collector.send(traces(*calls, marked(root, 3 if len(calls) > 1 else 2, "p")))
    collector.scored(trace_id(1).hex())


def test_a_failed_model_call_is_told_at_once_and_once(collector: RunningCollector) -> None:
    call = watch(collector)
    collector.send(traces(model_call(2, gen_ai__conversation__id="s-1")))
    found = next_finding(call)
    assert (found.kind, found.severity, found.mode) == ("model_failed", "warning", "observe")
    assert (found.session_id, found.trace_id, found.span_id) == ("s-1", trace_id(1).hex(), span_id(2).hex())
    assert found.reason == f"the call of small failed: {LIMITED}"
    assert findings(collector) == [("model_failed", span_id(2).hex(), "observe")]


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([model_call(2, error=None)], id="that worked"),
        pytest.param([model_call(2, error=None, error__type="CancelledError")], id="that its caller left"),
        pytest.param([span(1, 2, parent=1, gen_ai__operation__name="execute_tool", error__type="E")], id="of a tool"),
    ],
)
def test_no_other_call_is_told(collector: RunningCollector, spans: list[Span]) -> None:
    call = watch(collector)
    collector.send(traces(*spans))
    collector.send(traces(model_call(9, parent=8)))
    assert next_finding(call).span_id == span_id(9).hex()


def test_it_is_not_told_again_when_its_trace_is_complete(collector: RunningCollector) -> None:
    call = watch(collector)
    collector.send(traces(model_call(2)))
    told = next_finding(call)
    assert (told.session_id, told.agent) == (trace_id(1).hex(), "")
    complete(collector)
    document = collector.get(f"/api/v1/traces/{trace_id(1).hex()}")
    [found] = [each for each in document["findings"] if each["kind"] == "model_failed"]
    assert (found["agent"], found["turn"], found["mode"], found["span_id"]) == ("planner", 0, "observe", told.span_id)
    assert counted(collector) == 1
    collector.send(traces(model_call(9, parent=8)))
    assert next_finding(call).span_id == span_id(9).hex()


def test_two_spans_of_one_call_are_told_as_one(collector: RunningCollector) -> None:
    """Its client ends first; the complete trace shows the call on the span of the framework around it."""
    call = watch(collector)
    collector.send(traces(model_call(3, parent=2), scope="client"))
    assert next_finding(call).span_id == span_id(3).hex()
    complete(collector, model_call(2))
    assert [each for each in findings(collector) if each[0] == "model_failed"] == [
        ("model_failed", span_id(2).hex(), "observe")
    ]
    assert counted(collector) == 1
    collector.send(traces(model_call(9, parent=8)))
    assert next_finding(call).span_id == span_id(9).hex()


def test_an_attempt_within_a_call_that_worked_is_no_failure_in_the_end(collector: RunningCollector) -> None:
    call = watch(collector)
    collector.send(traces(model_call(3, parent=2)))
    assert next_finding(call).kind == "model_failed"
    reply = '[{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]'
    complete(collector, model_call(2, error=None, gen_ai__output__messages=reply))
    assert [each for each in findings(collector) if each[0] == "model_failed"] == []


def test_it_is_only_recorded_where_the_settings_say_so(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, **OPEN, findings={"model_failed": {"mode": "record"}}) as collector:
        call = watch(collector)
        collector.send(traces(model_call(2)))
        for number in (3, 4, 5):
            collector.send(traces(tool_span(1, number)))
        assert next_finding(call).kind == "identical_call"
        assert ("model_failed", span_id(2).hex(), None) in findings(collector)
