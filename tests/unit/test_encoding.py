"""Our bytes mean exactly what the SDK's encoder says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from otel_agenteval.context import SpanIdentity
from otel_agenteval.sending.buffer import EndedSpan, ended_span
from otel_agenteval.sending.encoding import MAX_DEPTH, Encoder
from tests.support.fake_collector import attributes
from tests.support.inputs import inputs
from tests.support.recordings import read_requests, recordings

RECORDINGS = recordings("corpus")

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
long_text = st.integers(0, 70_000).map(lambda n: "ä" * n)
scalar = st.one_of(
    text,
    long_text,
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.binary(max_size=300),
    st.none(),
)
value = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=8
)
attribute_maps = st.dictionaries(text, value, max_size=6)
identifiers = st.integers(1, 2**64 - 1)
trace_states = st.dictionaries(st.sampled_from(["a", "b", "vendor@x"]), st.sampled_from(["1", "t61rcWkgMzE"]))


def bounded(found: Mapping[str, Any], limit: int = 128) -> BoundedAttributes:
    return BoundedAttributes(limit, found, immutable=True)


contexts = st.builds(
    lambda high, low, span, remote, state: SpanContext(
        high << 64 | low, span, remote, TraceFlags(1), TraceState(list(state.items()))
    ),
    st.integers(0, 2**64 - 1),
    identifiers,
    identifiers,
    st.booleans(),
    trace_states,
)
times = st.integers(0, 2**63)
limited = st.tuples(attribute_maps, st.integers(0, 6)).map(lambda pair: bounded(*pair))
resources = st.builds(
    Resource,
    st.dictionaries(text.filter(bool), text | st.integers(-5, 5), max_size=3),
    st.sampled_from(["", "https://s/1"]),
)
scopes = st.none() | st.builds(
    InstrumentationScope,
    text,
    st.sampled_from([None, "", "1.2"]),
    st.sampled_from([None, "", "https://s/2"]),
    st.dictionaries(text.filter(bool), text, max_size=2),
)
spans = st.builds(
    ReadableSpan,
    name=text,
    context=contexts,
    parent=st.none() | contexts,
    resource=st.shared(st.lists(resources, min_size=1, max_size=3), key="resources").flatmap(st.sampled_from),
    attributes=limited,
    events=st.lists(st.builds(Event, text, limited, times), max_size=3),
    links=st.lists(st.builds(Link, contexts, limited), max_size=3),
    kind=st.sampled_from(SpanKind),
    status=st.builds(Status, st.just(StatusCode.ERROR), st.none() | text)
    | st.builds(Status, st.sampled_from([StatusCode.UNSET, StatusCode.OK])),
    start_time=times,
    end_time=times,
    instrumentation_scope=scopes,
)


def ended(span: ReadableSpan, identity: SpanIdentity | None = None, span_count: int | None = None) -> EndedSpan:
    ended = ended_span(span, identity)
    ended.span_count = span_count
    return ended


def encoded(encoder: Encoder, batch: Sequence[EndedSpan]) -> ExportTraceServiceRequest:
    spans = [(item.span.resource, item.span.instrumentation_scope, encoder.span(item)) for item in batch]
    return ExportTraceServiceRequest.FromString(encoder.request(spans))


def same_meaning(ours: ExportTraceServiceRequest, theirs: ExportTraceServiceRequest) -> bool:
    # Compared as canonical bytes, because NaN makes equal messages unequal.
    return ours.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True)


@settings(max_examples=inputs(1), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(batch=st.lists(spans, max_size=5))
def test_request_equals_the_sdk_encoders(batch: list[ReadableSpan]) -> None:
    assert same_meaning(encoded(Encoder(), [ended(span) for span in batch]), encode_spans(batch))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".otlp.pb"))
def test_recorded_spans_encode_as_the_sdk_encodes_them(path: Path) -> None:
    encoder = Encoder()
    for request in read_requests(path, ExportTraceServiceRequest):
        batch = list(sdk_spans(request))
        ours = encoded(encoder, [ended(span) for span in batch])
        assert batch
        assert same_meaning(ours, encode_spans(batch))


def test_text_that_is_not_unicode_keeps_what_is() -> None:
    span = make_span(attributes={"reply": "half an emoji \ud83d."}, name="\udc00chat")
    request = encoded(Encoder(), [ended(span)])
    sent = request.resource_spans[0].scope_spans[0].spans[0]
    assert attributes(sent) == {"reply": "half an emoji ?."}
    assert sent.name == "?chat"


@pytest.mark.parametrize(
    "unsendable",
    [
        pytest.param(2**63, id="an integer of more than 64 bits"),
        pytest.param((1, (2**63,)), id="one inside a sequence"),
        pytest.param(object(), id="no attribute type at all"),
    ],
)
def test_attribute_without_a_form_in_otlp_is_left_out_and_counted(unsendable: object) -> None:
    encoder = Encoder()
    request = encoded(encoder, [ended(make_span(attributes={"bad": unsendable, "good": 1}))])
    assert attributes(request.resource_spans[0].scope_spans[0].spans[0]) == {"good": 1}
    assert encoder.lost_attributes == 1


def nested(depth: int, *, mapping: bool) -> object:
    inner: object = "x"
    for _ in range(depth):
        inner = {"k": inner} if mapping else (inner,)
    return inner


@pytest.mark.parametrize("mapping", [False, True], ids=["sequences", "mappings"])
def test_nesting_stays_within_what_parsers_accept(mapping: bool) -> None:
    encoder = Encoder()
    events = [Event("e", bounded({"deepest": nested(MAX_DEPTH, mapping=mapping)}), 1)]
    span = make_span(attributes={"too deep": nested(MAX_DEPTH + 1, mapping=mapping)}, events=events)
    sent = encoded(encoder, [ended(span)]).resource_spans[0].scope_spans[0].spans[0]
    assert attributes(sent) == {}
    assert list(attributes(sent.events[0])) == ["deepest"]
    assert encoder.lost_attributes == 1


def test_identity_and_completion_marker_are_on_the_copy_alone() -> None:
    span = make_span(attributes={"agenteval.session.id": "stamped", "agenteval.condition": "fault", "a": 1})
    request = encoded(Encoder("p1"), [ended(span, SpanIdentity("s", "u"), 3)])
    sent = request.resource_spans[0].scope_spans[0].spans[0]
    assert attributes(sent) == {
        "a": 1,
        "agenteval.condition": "fault",
        "agenteval.session.id": "s",
        "agenteval.user.id": "u",
        "agenteval.process.id": "p1",
        "agenteval.trace.span_count": 3,
    }
    assert attributes(request.resource_spans[0].resource)["agenteval.process.id"] == "p1"
    assert span.attributes is not None
    assert span.attributes["agenteval.session.id"] == "stamped"


def test_full_caches_stay_right_when_names_never_repeat() -> None:
    encoder = Encoder("p1")
    for n in range(3000):
        scope = InstrumentationScope(f"scope-{n}")
        span = make_span(attributes={f"key-{n}": n}, resource=Resource({"n": n}), instrumentation_scope=scope)
        sent = encoded(encoder, [ended(span, SpanIdentity(f"s-{n}"))]).resource_spans[0]
        assert attributes(sent.resource)["n"] == n
        assert sent.scope_spans[0].scope.name == f"scope-{n}"
        assert attributes(sent.scope_spans[0].spans[0]) == {f"key-{n}": n, "agenteval.session.id": f"s-{n}"}


def make_span(attributes: Mapping[str, Any], name: str = "chat", **kwargs: Any) -> ReadableSpan:
    context = SpanContext(1, 2, False, TraceFlags(1))
    return ReadableSpan(name, context, attributes=dict(attributes), start_time=1, end_time=2, **kwargs)


def sdk_spans(request: ExportTraceServiceRequest) -> list[ReadableSpan]:
    """The spans of a request as the SDK held them before it was encoded."""
    found = []
    for group in request.resource_spans:
        resource = Resource(python_attributes(group.resource.attributes), group.schema_url)
        for of_scope in group.scope_spans:
            scope = InstrumentationScope(
                of_scope.scope.name,
                of_scope.scope.version,
                of_scope.schema_url,
                python_attributes(of_scope.scope.attributes),
            )
            found += [sdk_span(span, resource, scope) for span in of_scope.spans]
    return found


def sdk_span(span: trace_pb2.Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    def context(trace_id: bytes, span_id: bytes) -> SpanContext:
        return SpanContext(int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big"), False)

    return ReadableSpan(
        name=span.name,
        context=context(span.trace_id, span.span_id),
        parent=context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
        resource=resource,
        attributes=bounded(python_attributes(span.attributes)),
        events=[Event(e.name, bounded(python_attributes(e.attributes)), e.time_unix_nano) for e in span.events],
        links=[Link(context(k.trace_id, k.span_id), bounded(python_attributes(k.attributes))) for k in span.links],
        kind=SpanKind(span.kind - 1),
        status=Status(StatusCode(span.status.code), span.status.message or None),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
        instrumentation_scope=scope,
    )


def python_attributes(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: python_value(pair.value) for pair in pairs}


def python_value(any_value: AnyValue) -> Any:
    match any_value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return tuple(python_value(item) for item in any_value.array_value.values)
        case "kvlist_value":
            return python_attributes(any_value.kvlist_value.values)
        case kind:
            return getattr(any_value, kind)
