"""Whatever arrives: nothing raises, order does not matter, and all that is read can be written as JSON."""

import dataclasses
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_agenteval.conventions.spans import EventRecord, LogRecord, SpanRecord, attributes, log_record, span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.recordings import logs_of, name_of, recorded_logs, recorded_spans, recorded_traces, recordings
from tests.support.vocabulary import attribute_names, words

MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions", "input.value")
INDEXED = (
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message",
    "llm.input_messages.1.message.tool_calls.0.tool_call.function.name",
    "llm.output_messages.0.message.contents.0.message_content.text",
    "llm.output_messages.x.message",
    "llm.tools.0.tool.json_schema",
    "llm.request.functions.0.name",
    "gen_ai.prompt.1.tool_calls.0.name",
    "gen_ai.completion.0.tool_calls.0.arguments",
)
NAMES = (*attribute_names(), *words(), *INDEXED)
KIND_NAMES = [name for name in NAMES if name.lower().endswith(("operation.name", "kind", "type", "method.name", "id"))]
EVENT_NAMES = st.sampled_from([name for name in attribute_names() if name.startswith("gen_ai.")] + ["exception"])
WORDS = st.sampled_from([*words(), "parts", "name", "messages", "data", "kwargs", "args", "choices", "tools/call",
                         "transfer_to_bot", "bot", "status", "__REDACTED__"])  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | WORDS
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=10
)
PART = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("type", "content", "id", "name", "arguments", "response"), JSON)
)
MESSAGE = st.fixed_dictionaries(
    {"role": WORDS}, optional={"parts": st.lists(PART, max_size=3), "content": JSON, "tool_calls": JSON}
)
CONTENT = JSON | st.lists(MESSAGE, max_size=3)
WRITTEN = CONTENT.map(json.dumps)
CUT = st.tuples(WRITTEN, st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]])
VALUES = CONTENT | WRITTEN | CUT | WRITTEN.map(json.dumps)
KINDS = st.dictionaries(st.sampled_from(KIND_NAMES), WORDS | WORDS.map(json.dumps), max_size=2)
IDS = st.sampled_from(["a", "b", "c", "d", "e"])
TIMES = st.integers(0, 20)


@st.composite
def spans(draw: st.DrawFn) -> SpanRecord:
    content = draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6))
    return SpanRecord(
        span_id=draw(IDS | st.none()),
        parent_id=draw(IDS | st.none()),
        name=draw(WORDS | st.sampled_from(["agent_run [bot]", "crew.kickoff", "final_answer"])),
        started_at=draw(TIMES),
        ended_at=draw(TIMES),
        attributes={**content, **draw(KINDS)},
        events=tuple(draw(st.lists(EVENTS, max_size=2))),
        status=draw(st.sampled_from([0, 1, 2, 99])),
        status_message=draw(st.text(max_size=3)),
        dropped_attributes_count=draw(st.integers(0, 1)),
    )


EVENTS = st.builds(
    EventRecord,
    name=EVENT_NAMES,
    attributes=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
)
LOGS = st.builds(
    LogRecord,
    span_id=IDS | st.none(),
    time=TIMES,
    event_name=EVENT_NAMES,
    body=VALUES,
    attributes=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
)


def as_json(trace: Trace) -> str:
    return json.dumps(dataclasses.asdict(trace), allow_nan=False, ensure_ascii=False, default=bytes.hex)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records=st.lists(spans(), max_size=7), logs=st.lists(LOGS, max_size=3), seed=st.integers())
def test_nothing_raises_and_arrival_order_does_not_matter(
    records: list[SpanRecord], logs: list[LogRecord], seed: int
) -> None:
    trace = read_trace("t", records, logs)
    as_json(trace).encode()
    order = random.Random(seed)
    shuffled = read_trace("t", order.sample(records, len(records)), order.sample(logs, len(logs)))
    assert as_json(shuffled) == as_json(trace)


def test_spans_that_are_each_others_parents_are_read() -> None:
    ring = [
        SpanRecord(span_id=name, parent_id=parent, attributes={"gen_ai.operation.name": "chat"})
        for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "e"))
    ]
    assert read_trace("t", ring).span_count == 5


def test_spans_without_an_id_are_counted_as_unread() -> None:
    trace = read_trace("t", [SpanRecord(span_id=None), SpanRecord(span_id="a")])
    assert (trace.span_count, trace.unread) == (1, {"span_id": 1})


def test_a_trace_of_nothing_is_empty() -> None:
    assert read_trace("t", []) == Trace(trace_id="t")


RECORDINGS = recordings("corpus", "recorded")


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_recording_reads_the_same_in_any_order_and_with_retries(path: Path) -> None:
    order = random.Random(path.name)
    logs = recorded_logs(logs_of(path))
    for trace_id, records in recorded_spans(path).items():
        beside = logs.get(trace_id, [])
        again = order.sample(records * 2, len(records) * 2)
        read = read_trace(trace_id, again, order.sample(beside * 2, len(beside) * 2))
        assert read == recorded_traces(path)[trace_id]


HOSTILE = {
    "brackets": "[" * 20_000,
    "objects": '{"a":' * 4_000,
    "objects in an array": '[{"role":"user","content":"' + "x" * 20_000,
    "quotes": '"' * 20_000,
    "backslashes": '["' + "\\" * 20_000,
    "digits": "[" + "9" * 20_000 + "]",
    "an exponent": '{"a": 1e999999999}',
    "messages": json.dumps([{"role": "user", "content": "x"}] * 500),
    "many short strings": '["a",' * 4_000,
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps([{"role": "user"}] * 200))),
    "a Python object": "ResponseFunctionToolCall(" * 800,
    "words and dots": "a." * 10_000,
    "one long word": "w" * 20_000,
    "errors": "Error " * 4_000,
    "blanks after an error": "Error" + " " * 20_000 + "x",
    "tabs and quotes": ' "' * 10_000,
    "spaces": " " * 20_000 + "x",
    "half of a pair": '["\\ud800"]' * 1_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_time_does_not_explode_with_the_length_of_a_value(text: str) -> None:
    attributes = dict.fromkeys(NAMES, text)
    event = EventRecord(name="gen_ai.choice", attributes=attributes)
    begun = time.process_time()
    for kind in ({"gen_ai.operation.name": "chat"}, {"openinference.span.kind": "LLM"}, {"gen_ai.operation.name": "?"}):
        trace = read_trace("t", [SpanRecord(span_id="a", attributes={**attributes, **kind}, events=(event,))])
        as_json(trace).encode()
    assert time.process_time() - begun < 10


def test_a_value_of_megabytes_is_read_in_time_that_grows_with_its_length() -> None:
    history = json.dumps([{"role": "user", "content": "x" * 100}] * 20_000)
    begun = time.process_time()
    read_trace("t", [SpanRecord(span_id="a", attributes=dict.fromkeys(MESSAGES, history[:-3]))])
    assert time.process_time() - begun < 10


def test_attributes_that_are_flattened_without_end_are_read() -> None:
    flat = {f"{name}.{n}.{'a.' * 50}b": "x" for name in ("llm.input_messages", "gen_ai.prompt") for n in range(2_000)}
    assert read_trace("t", [SpanRecord(span_id="a", attributes={**flat, "openinference.span.kind": "LLM"})]).turns


def wire(value: Any) -> AnyValue:
    """The OTLP form of a value: the inverse of what is tested."""
    fields = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    if value is None:
        return AnyValue()
    if type(value) in fields:
        return AnyValue(**{fields[type(value)]: value})
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=map(wire, value)))
    pairs = [KeyValue(key=key, value=wire(item)) for key, item in value.items()]
    return AnyValue(kvlist_value=KeyValueList(values=pairs))


INT64 = st.integers(-(2**63), 2**63 - 1)
WIRE = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(values=st.dictionaries(st.text(), WIRE, max_size=4))
def test_attributes_decode_to_what_was_sent(values: dict[str, Any]) -> None:
    assert attributes([KeyValue(key=key, value=wire(value)) for key, value in values.items()]) == values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(AnyValue(bytes_value=b'{"a": 1}'), '{"a": 1}', id="bytes that are text"),
        pytest.param(AnyValue(bytes_value=b"\xff"), "/w==", id="other bytes as base64"),
        pytest.param(AnyValue(double_value=float("nan")), "nan", id="what is no number as text"),
    ],
)
def test_values_without_a_json_form(value: AnyValue, expected: str) -> None:
    assert attributes([KeyValue(key="k", value=value)]) == {"k": expected}


def test_attribute_nesting_is_bounded() -> None:
    value = AnyValue(string_value="deep")
    for _ in range(40):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    assert "deep" not in str(attributes([KeyValue(key="k", value=value)]))


def test_span_and_log_messages_become_records() -> None:
    resource = {"service.name": "bot"}
    message = SpanMessage(trace_id=b"\x01" * 16, span_id=b"\xab" * 8, name="chat", start_time_unix_nano=5)
    message.status.code = Status.STATUS_CODE_ERROR
    record = span_record(message, resource, "scope")
    assert (record.trace_id, record.span_id, record.parent_id) == ("01" * 16, "ab" * 8, None)
    assert (record.status, record.scope, record.resource) == (2, "scope", resource)
    log = LogMessage(span_id=b"\xab" * 8, observed_time_unix_nano=7)
    log.attributes.append(KeyValue(key="event.name", value=wire("happened")))
    assert (log_record(log, resource, "").event_name, log_record(log, resource, "").time) == ("happened", 7)
