"""Log records of coding agents become spans: each turn a trace, whatever they come with and in whatever order."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import read_recording
from agenteval_collector.config.settings import Settings
from agenteval_collector.ingest.event_spans import PROMPTS, Turns, key_of, with_event_spans
from agenteval_collector.model.logged_requests import Signal
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from otel_agenteval.conventions.spans import attributes, span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import CallOutcome, Trace, Usage
from tests.support.recordings import DATA, name_of, read_requests

FOLDER = DATA / "coding_agents"
RECORDED = sorted(FOLDER.glob("*.expected.json"))
SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND


def files_of(truth: Path) -> list[Path]:
    beside = [truth.with_name(f"{name_of(truth)}{ending}") for ending in (".otlp.pb", ".logs.otlp.pb")]
    return [file for file in beside if file.exists()][:1]


@pytest.mark.parametrize("truth", RECORDED, ids=name_of)
def test_what_coding_agents_recorded_is_read_as_it_happened(truth: Path) -> None:
    expected = json.loads(truth.read_text())
    requests = list(chain.from_iterable(map(read_recording, files_of(truth))))
    if name_of(truth) == "gemini-cli":  # Its spans come after its log records, as its exporters have it.
        requests.sort(key=lambda recorded: -recorded.signal)
    read = replay(requests, Settings(), lambda _: None)
    turns = [(trace, turn) for trace in read["traces"] for turn in trace["turns"]]
    assert len(turns) == len(read["traces"]) == len(expected["turns"])
    for (trace, turn), truth_of_turn in zip(turns, expected["turns"], strict=True):
        assert (trace["session_id"], trace["agent"]) == (expected["session"], expected["agent"])
        assert (turn["input"], turn["output"]) == (truth_of_turn["input"], truth_of_turn["output"])
        assert (truth_of_turn["error"] or "") in (turn["error"] or "")
        assert bool(turn["error"]) == bool(truth_of_turn["error"])
        assert trace["model_calls"] == truth_of_turn["model_calls"]
        usage: dict[str, Any] = {**trace["usage"]}
        assert {part: usage[part] for part in truth_of_turn["usage"]} == truth_of_turn["usage"]
        assert [
            (call["name"], call["arguments"], call["outcome"], call["error"]) for call in trace["tools_called"]
        ] == [(call["name"], call["arguments"], call["outcome"], call["error"]) for call in truth_of_turn["tools"]]
        for call, wanted in zip(trace["tools_called"], truth_of_turn["tools"], strict=True):
            assert (wanted["result"] or "") in (call["result"] or "")


def record(name: str, at: float, *, trace: bytes = b"", span: bytes = b"", **values: Any) -> LogRecord:
    """An event of Claude Code, `at` seconds after the beginning; `__` in the names of values stands for a dot."""
    written = LogRecord(time_unix_nano=BEGIN + round(at * SECOND), trace_id=trace, span_id=span)
    written.body.string_value = name
    for key, value in values.items():
        target = written.attributes.add(key=key.replace("__", ".")).value
        setattr(
            target, {str: "string_value", bool: "bool_value", int: "int_value"}.get(type(value), "double_value"), value
        )
    return written


def claude(name: str, at: float, *, turn: str = "p1", **values: Any) -> LogRecord:
    values = {"session__id": "s", "prompt__id": turn, "event__name": name, **values}
    return record(f"claude_code.{name}", at, **values)


def codex(name: str, at: float, **values: Any) -> LogRecord:
    return record("", at, event__name=f"codex.{name}", conversation__id="s", **values)


def request(records: Iterable[LogRecord], service: str = "agent") -> ExportLogsServiceRequest:
    made = ExportLogsServiceRequest()
    of_resource = made.resource_logs.add()
    of_resource.resource.attributes.add(key="service.name").value.string_value = service
    of_resource.scope_logs.add().log_records.extend(records)
    return made


def read(*requests: ExportLogsServiceRequest, turns: Turns | None = None) -> dict[str, Trace]:
    """The traces that requests make, by id."""
    turns = turns or Turns()
    spans: dict[str, dict[str | None, Any]] = {}
    for sent in requests:
        for signal, body in with_event_spans(Signal.LOGS, sent.SerializeToString(), turns):
            if signal is Signal.TRACES:
                for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    resource = attributes(of_resource.resource.attributes)
                    for of_scope in of_resource.scope_spans:
                        for span in of_scope.spans:
                            made = span_record(span, resource, of_scope.scope.name)
                            spans.setdefault(made.trace_id or "", {})[made.span_id] = made
    return {key: read_trace(key, [*made.values()]) for key, made in spans.items()}


def only(traces: dict[str, Trace]) -> Trace:
    [trace] = traces.values()
    return trace


TOKENS: dict[str, Any] = {"input_tokens": 2, "output_tokens": 3, "cache_read_tokens": 5, "cache_creation_tokens": 7}
TURN = (
    claude("user_prompt", 0, prompt="hi"),
    claude("api_request", 2, model="claude-opus-4-8", request_id="r1", duration_ms=900, cost_usd=0.25, **TOKENS),
    claude("tool_result", 3, tool_name="Read", tool_use_id="t1", success="true", tool_input='{"file_path": "a"}'),
    claude("api_request", 4, model="claude-opus-4-8", request_id="r2", duration_ms=700, cost_usd=0.25, **TOKENS),
    claude("assistant_response", 4.001, response="hello", request_id="r2", query_source="repl_main_thread"),
)


def told(trace: Trace) -> Any:
    [turn] = trace.turns
    calls = [(call.name, call.arguments, call.outcome, call.error) for call in turn.tool_calls]
    return trace.session_id, turn.input, turn.output, calls, [call.usage for call in turn.model_calls]


WHOLE = (
    "s",
    "hi",
    "hello",
    [("Read", {"file_path": "a"}, CallOutcome.WORKED, None)],
    [Usage(input_tokens=14, output_tokens=3, cache_read_tokens=5, cache_write_tokens=7)] * 2,
)


def test_a_turn_of_events_is_a_trace() -> None:
    trace = only(read(request(TURN)))
    assert told(trace) == WHOLE
    assert trace.agents == ("claude-code",)
    [turn] = trace.turns
    assert [call.billed_usd for call in turn.model_calls] == [0.25, 0.25]
    assert [call.ended_at - call.started_at for call in turn.model_calls] == [900_000_000, 700_000_000]


@given(st.permutations(TURN), st.data())
def test_the_order_of_records_and_their_batches_do_not_matter(
    records: Sequence[LogRecord], data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=len(records)))
    batches, start = [], 0
    for size in sizes:
        if start < len(records):
            batches.append(request(records[start : start + size]))
            start += size
    assert told(only(read(*batches))) == WHOLE
    # Exporters send again what was not answered.
    assert told(only(read(*batches, *batches))) == WHOLE


def test_records_without_the_id_of_a_turn_belong_to_the_prompt_before_them() -> None:
    counted = {"event__kind": "response.completed", "input_token_count": 10, "output_token_count": 1}
    turns = Turns()
    prompts = [codex("user_prompt", at, prompt=f"question {at}") for at in (0, 10, 20)]
    sent = [
        request([prompt, codex("sse_event", prompt_at + 1, **counted)])
        for prompt, prompt_at in zip(prompts, (0, 10, 20), strict=True)
    ]
    late = request(
        [codex("tool_result", 12, tool_name="exec", call_id="c", arguments="{}", success="true", output="x")]
    )
    traces = read(*sent, late, turns=turns)
    assert sorted((trace.turns[0].input, len(trace.turns[0].tool_calls)) for trace in traces.values()) == [
        ("question 0", 0),
        ("question 10", 1),
        ("question 20", 0),
    ]


def test_steps_of_a_session_that_is_not_remembered_stand_in_a_trace_without_a_prompt() -> None:
    trace = only(read(request([codex("tool_result", 1, tool_name="exec", call_id="c", success="true", output="x")])))
    assert [(turn.input, [call.name for call in turn.tool_calls]) for turn in trace.turns] == [(None, ["exec"])]


def test_turns_that_are_remembered_are_bounded() -> None:
    turns = Turns()
    for at in range(PROMPTS + 5):
        read(request([codex("user_prompt", at, prompt="hi")]), turns=turns)
    assert turns.at(key_of("s"), BEGIN + 4 * SECOND) is None
    assert turns.at(key_of("s"), BEGIN + 5 * SECOND) is not None


@pytest.mark.parametrize(
    ("event", "outcome", "error"),
    [
        pytest.param(
            claude("tool_result", 1, tool_name="Bash", tool_use_id="t", success="false", error_type="ShellError"),
            CallOutcome.FAILED,
            "ShellError",
            id="a type of error alone",
        ),
        pytest.param(
            claude("tool_result", 1, tool_name="Bash", tool_use_id="t", success=False, error="no such file"),
            CallOutcome.FAILED,
            "no such file",
            id="a truth value",
        ),
        pytest.param(
            claude("tool_result", 1, tool_name="Bash", tool_use_id="t", success="false"),
            CallOutcome.FAILED,
            "failed",
            id="no words",
        ),
        pytest.param(
            claude("tool_decision", 1, tool_name="Bash", tool_use_id="t", decision="reject", source="user_reject"),
            CallOutcome.REFUSED,
            None,
            id="the user said no",
        ),
    ],
)
def test_the_outcome_of_a_tool_is_told(event: LogRecord, outcome: CallOutcome, error: str | None) -> None:
    trace = only(read(request([claude("user_prompt", 0, prompt="hi"), event])))
    assert [(call.name, call.outcome, call.error) for call in trace.turns[0].tool_calls] == [("Bash", outcome, error)]


def test_a_decision_that_allows_a_call_is_no_call() -> None:
    allowed = claude("tool_decision", 1, tool_name="Bash", tool_use_id="t", decision="accept", source="config")
    trace = only(read(request([claude("user_prompt", 0, prompt="hi"), allowed])))
    assert trace.turns[0].tool_calls == ()


def test_a_tool_of_an_mcp_server_has_the_name_that_the_model_called() -> None:
    named = json.dumps({"mcp_server_name": "github", "mcp_tool_name": "search"})
    event = claude("tool_result", 1, tool_name="mcp_tool", tool_use_id="t", success="true", tool_parameters=named)
    trace = only(read(request([event])))
    assert [call.name for call in trace.turns[0].tool_calls] == ["mcp__github__search"]


def test_words_of_calls_that_are_not_for_the_user_are_no_answer() -> None:
    title = claude("assistant_response", 5, response="Greeting", request_id="r3", query_source="generate_session_title")
    assert told(only(read(request([*TURN, title]))))[2] == "hello"


def test_words_that_are_held_back_are_not_recorded() -> None:
    prompts = [claude("user_prompt", 0, prompt="<REDACTED>"), codex("user_prompt", 0, prompt="[REDACTED]")]
    assert [trace.turns[0].input for trace in read(request(prompts)).values()] == [None, None]


def test_a_response_that_was_recorded_whole_is_the_reply() -> None:
    body = {
        "content": [
            {"type": "text", "text": "let me see"},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {}},
        ]
    }
    whole = claude("api_response_body", 2, body=json.dumps(body), request_id="r1", query_source="sdk")
    cut = claude("api_response_body", 2, body=json.dumps(body)[:40], request_id="r2", query_source="sdk")
    trace = only(read(request([*TURN[:4], whole, cut])))
    assert [call.output for call in trace.turns[0].model_calls] == ["let me see", None]


def test_a_failed_model_call_fails_its_turn() -> None:
    failed = claude("api_error", 1, model="claude-opus-4-8", error="Overloaded", status_code=529, attempt=10)
    trace = only(read(request([claude("user_prompt", 0, prompt="hi"), failed])))
    assert trace.turns[0].error == "Overloaded"


def test_records_that_name_a_trace_complete_the_spans_of_it() -> None:
    prompt = claude("user_prompt", 0, prompt="hi")
    in_trace = [LogRecord.FromString(each.SerializeToString()) for each in (prompt, *TURN[1:])]
    for each in in_trace:
        each.trace_id, each.span_id = bytes(range(16)), bytes(range(1, 9))
    [(key, trace)] = read(request(in_trace)).items()
    assert key == bytes(range(16)).hex()
    assert [call.name for turn in trace.turns for call in turn.tool_calls] == ["Read"]


def test_spans_that_say_less_than_the_events_of_their_session_are_left_out() -> None:
    turns = Turns()
    files = [FOLDER / "gemini-cli.logs.otlp.pb", FOLDER / "gemini-cli.otlp.pb"]
    spans = [sent.SerializeToString() for sent in read_requests(files[1], ExportTraceServiceRequest)]
    assert [body for sent in spans for _, body in with_event_spans(Signal.TRACES, sent, turns)] == spans
    for logs in read_requests(files[0], ExportLogsServiceRequest):
        with_event_spans(Signal.LOGS, logs.SerializeToString(), turns)
    left = [
        span.name
        for sent in spans
        for _, body in with_event_spans(Signal.TRACES, sent, turns)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
        if of_scope.scope.name == "gemini-cli"
    ]
    assert left == []


def test_other_records_stay_as_they_are() -> None:
    other = record("claude_code.hook_registered", 1, prompt__id="p1", session__id="s")
    alone = request([other]).SerializeToString()
    assert with_event_spans(Signal.LOGS, alone, Turns()) == [(Signal.LOGS, alone)]
    both = with_event_spans(Signal.LOGS, request([other, *TURN]).SerializeToString(), Turns())
    assert [signal for signal, _ in both] == [Signal.TRACES, Signal.LOGS]
    assert both[1][1] == alone


@pytest.mark.parametrize(
    ("service", "events", "agent"),
    [
        pytest.param(
            "cowork",
            [record("", 0, event__name="user_prompt", session__id="s", prompt__id="p", prompt="hi")],
            "cowork",
            id="Cowork",
        ),
        pytest.param(
            "opencode",
            [record("user_prompt", 0, event__name="user_prompt", session__id="s", prompt="hi")],
            "opencode",
            id="opencode",
        ),
        pytest.param(
            "shop",
            [record("user_prompt", 0, event__name="user_prompt", session__id="s", prompt="opencode")],
            None,
            id="nobody",
        ),
    ],
)
def test_events_without_a_prefix_are_known_by_their_service(
    service: str, events: list[LogRecord], agent: str | None
) -> None:
    assert [trace.agents for trace in read(request(events, service)).values()] == ([(agent,)] if agent else [])


HOSTILE = st.one_of(st.text(max_size=20), st.integers(-(2**62), 2**62), st.floats(), st.booleans())
KEYS = [
    *("prompt", "duration_ms", "input_tokens", "cost_usd", "success", "tool_name", "tool_input", "tool_parameters"),
    *("response", "body", "response_text", "request_id", "query_source", "error", "event.kind", "finish_reasons"),
]


@given(
    st.sampled_from(
        ["claude_code.user_prompt", "claude_code.api_request", "claude_code.tool_result", "codex.sse_event"]
    ),
    st.dictionaries(st.sampled_from(KEYS), HOSTILE),
    st.integers(0, 2**63),
)
def test_nothing_that_an_event_holds_raises(name: str, values: dict[str, Any], at: int) -> None:
    event = record(name, 0, session__id="s", conversation__id="s", prompt__id="p", event__name=name, **values)
    event.time_unix_nano = at
    for trace in read(request([event])).values():
        assert trace.session_id == "s"
