"""Recordings in the spelling of another language, another version or another limit are read like the recordings."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from otel_agenteval.conventions.decoding import decode_arguments
from otel_agenteval.conventions.dialect import SpanRole
from otel_agenteval.conventions.span_reader import read_span
from otel_agenteval.conventions.spans import STATUS_ERROR, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.detectors.tool_names import tool_slug
from otel_agenteval.model import Trace
from tests.support.recordings import logs_of, name_of, recorded_logs, recorded_spans, recorded_traces, recordings
from tests.support.truth import FRAMEWORK_TOOLS

PATHS = recordings("corpus", "recorded")
LIMIT = 200
"""Characters of a value that a limited SDK keeps."""
ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "ai.toolCall.args"),
    *("mlflow.spanInputs", "langfuse.observation.input"),
)
ANSWERED_LATE = {"pydantic-ai--multiturn-structured"}
"""What tells the tool by which the model answers stands at the end of a value that is cut."""

Variant = Callable[[SpanRecord], SpanRecord]


def in_javascript(span: SpanRecord) -> SpanRecord:
    """The scope as the JavaScript twin of a Python package has it."""
    package, _, library = span.scope.partition(".instrumentation.")
    prefix = {"openinference": "@arizeai/openinference", "opentelemetry": "@traceloop"}.get(package)
    return replace(span, scope=f"{prefix}-instrumentation-{library.replace('_', '-')}") if prefix and library else span


def is_tool(span: SpanRecord) -> bool:
    facts, _ = read_span(span)
    return facts is not None and facts.role is SpanRole.TOOL


def by_async_method(span: SpanRecord) -> SpanRecord:
    """The span of a tool named after the method that ran it."""
    facts, _ = read_span(span)
    if facts is None or facts.role is not SpanRole.TOOL or not facts.tool:
        return span
    name = span.name + ".acall" if span.name.endswith(facts.tool) else span.name
    tools = {key: f"{value}.acall" for key, value in span.attributes.items() if value == facts.tool}
    return replace(span, name=name, attributes={**span.attributes, **tools})


def in_words(span: SpanRecord) -> SpanRecord:
    """The span of a tool with the tool's name in words, as frameworks show it to people."""
    facts, _ = read_span(span)
    if facts is None or facts.role is not SpanRole.TOOL or not facts.tool or facts.tool in FRAMEWORK_TOOLS:
        return span
    words = facts.tool.replace("_", " ").title()
    tools = {key: words for key, value in span.attributes.items() if value == facts.tool}
    return replace(span, name=span.name.replace(facts.tool, words), attributes={**span.attributes, **tools})


def in_envelope(span: SpanRecord) -> SpanRecord:
    """The arguments of a tool inside those of a framework's function."""
    if not is_tool(span):
        return span
    around: dict[str, Any] = {}
    for key in ARGUMENTS:
        value = span.attributes.get(key)
        decoded = decode_arguments(value) if isinstance(value, str) and value.startswith("{") else None
        if isinstance(decoded, dict) and decoded.keys().isdisjoint(("input", "inputs", "kwargs")):
            around[key] = json.dumps({"input": decoded, "options": None})
    return replace(span, attributes={**span.attributes, **around})


def cut(span: SpanRecord) -> SpanRecord:
    """Every value cut at a limit."""
    events = tuple(replace(event, attributes=_cut(event.attributes)) for event in span.events)
    return replace(span, attributes=_cut(span.attributes), events=events)


def _cut(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value[:LIMIT] if isinstance(value, str) else value for key, value in attributes.items()}


def failed_bare(span: SpanRecord) -> SpanRecord:
    """A failed span as instrumentations write it that end before they set attributes."""
    return replace(span, attributes={}) if span.status == STATUS_ERROR else span


def read_as(path: Any, variant: Variant) -> dict[str, Trace]:
    logs = recorded_logs(logs_of(path))
    return {
        key: read_trace(key, [variant(each) for each in spans], logs.get(key, ()))
        for key, spans in recorded_spans(path).items()
    }


def told(trace: Trace) -> list[Any]:
    return [
        (turn.input, turn.output, turn.error, [(c.name, c.arguments, c.result, c.error) for c in turn.tool_calls])
        for turn in trace.turns
    ]


@pytest.mark.parametrize("variant", [in_javascript, by_async_method, in_envelope], ids=lambda each: each.__name__)
@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_another_spelling_tells_the_same(path: Any, variant: Variant) -> None:
    recorded = recorded_traces(path)
    for key, trace in read_as(path, variant).items():
        assert told(trace) == told(recorded[key])
        assert trace.session_id == recorded[key].session_id


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_a_tool_whose_span_has_its_name_in_words_is_called_once(path: Any) -> None:
    recorded = recorded_traces(path)
    for key, trace in read_as(path, in_words).items():
        # Where no request has the name that the model knows, the span's is told.
        assert slugged(trace) == slugged(recorded[key])


def slugged(trace: Trace) -> list[Any]:
    calls = [(tool_slug(name), *others) for _, _, _, calls in told(trace) for name, *others in calls]
    return [*calls, *((output, error) for _, output, error, _ in told(trace))]


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_of_cut_values_a_part_is_told_and_nothing_else(path: Any) -> None:
    recorded = recorded_traces(path)
    for key, trace in read_as(path, cut).items():
        if len(trace.turns) != len(recorded[key].turns):  # Where turns are told apart by words, they may not be here.
            assert len(trace.turns) < len(recorded[key].turns)
            continue
        for turn, whole in zip(trace.turns, recorded[key].turns, strict=True):
            assert is_part(turn.input, whole.input)
            assert is_part(turn.output, whole.output)
            if name_of(path) not in ANSWERED_LATE:
                assert Counter(call.name for call in turn.tool_calls) <= Counter(call.name for call in whole.tool_calls)


def is_part(told: str | None, whole: str | None) -> bool:
    return not told or told == whole or (whole is not None and told.rstrip(".… ") in whole)


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_a_turn_whose_failed_call_has_no_attributes_failed(path: Any) -> None:
    recorded = recorded_traces(path)
    for key, trace in read_as(path, failed_bare).items():
        if any(turn.error for turn in recorded[key].turns):
            assert any(turn.error for turn in trace.turns)
