"""What is kept of a request, and in what parts."""

from collections import Counter

import pytest
from agenteval_collector.ingest.otlp_json import parse_json
from agenteval_collector.ingest.validity import MAX_RESOURCE, PART, Checked, Limits, check
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import InvalidRequest, RequestTooLarge
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.proto.v1.frame_pb2 import Frame
from tests.support.otlp import log, logs, span, traces

LIMITS = Limits(request=1 << 30, span=1 << 20)


def checked(request: ExportTraceServiceRequest | ExportLogsServiceRequest | Frame, signal: Signal) -> Checked:
    return check(signal, request.SerializeToString(), LIMITS)


def items(found: Checked) -> list[bytes]:
    return [
        raw
        for body in found.bodies
        for resource in Frame.FromString(body).resources
        for scope in resource.scopes
        for raw in scope.items
    ]


def broken(request: ExportTraceServiceRequest | ExportLogsServiceRequest, at: int, raw: bytes) -> Frame:
    """The request with other bytes in place of an item."""
    frame = Frame.FromString(request.SerializeToString())
    frame.resources[0].scopes[0].items[at] = raw
    return frame


@st.composite
def mutations(draw: st.DrawFn, raw: bytes) -> bytes:
    """The bytes, cut, lengthened, or with some of them changed."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(raw)))]) + draw(st.binary(max_size=8))


SPANS = traces(span(1, 1, gen_ai__x="größer"), span(2, 1, gen_ai__x="two"), span(3, 1, gen_ai__x="three"))
RECORDS = logs(log(1, 1, body="größer", gen_ai__x="y"), log(2, 1, gen_ai__x="y"), log(3, 1, gen_ai__x="y"))


@given(raw=mutations(SPANS.resource_spans[0].scope_spans[0].spans[0].SerializeToString()))
def test_whatever_becomes_of_one_span_the_others_are_kept(raw: bytes) -> None:
    found = checked(broken(SPANS, 0, raw), Signal.TRACES)
    others = [each.SerializeToString() for each in SPANS.resource_spans[0].scope_spans[0].spans[1:]]
    assert items(found)[-2:] == others
    assert found.accepted + found.rejected == 3
    # What is kept can be read as a whole.
    for body in found.bodies:
        ExportTraceServiceRequest.FromString(body)


@given(raw=mutations(RECORDS.resource_logs[0].scope_logs[0].log_records[0].SerializeToString()))
def test_whatever_becomes_of_one_log_record_the_others_are_kept(raw: bytes) -> None:
    found = checked(broken(RECORDS, 0, raw), Signal.LOGS)
    others = [each.SerializeToString() for each in RECORDS.resource_logs[0].scope_logs[0].log_records[1:]]
    assert items(found)[-2:] == others
    assert found.accepted + found.rejected == 3
    for body in found.bodies:
        ExportLogsServiceRequest.FromString(body)


def test_text_that_is_not_utf8_costs_its_span_and_is_named() -> None:
    bad = span(1, 1, text="xyz").SerializeToString().replace(b"xyz", b"x\xffz")
    found = checked(broken(SPANS, 1, bad), Signal.TRACES)
    assert (found.accepted, found.rejected) == (2, 1)
    assert "not UTF-8" in found.reason


@pytest.mark.parametrize(
    ("resource", "scope", "reason"),
    [
        pytest.param(b"\x0a\x01\xff", b"", "Resource is malformed", id="resource"),
        pytest.param(b"", b"\x0a\x01\xff", "InstrumentationScope is malformed", id="scope"),
        pytest.param(bytes(MAX_RESOURCE + 1), b"", f"Resource is larger than {MAX_RESOURCE}", id="a large resource"),
    ],
)
def test_a_bad_resource_or_scope_costs_its_own_spans(resource: bytes, scope: bytes, reason: str) -> None:
    frame = Frame.FromString(SPANS.SerializeToString())
    bad = frame.resources.add(resource=resource)
    bad.scopes.add(scope=scope, items=[span(9, 1).SerializeToString()] * 4)
    found = checked(frame, Signal.TRACES)
    assert (found.accepted, found.rejected) == (3, 4)
    assert reason in found.reason
    [body] = found.bodies
    kept = [each for each in ExportTraceServiceRequest.FromString(body).resource_spans if each.scope_spans]
    assert [each.scope_spans[0].spans for each in kept if each.scope_spans[0].spans] == [
        SPANS.resource_spans[0].scope_spans[0].spans
    ]


def test_a_request_that_cannot_be_taken_apart_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="ExportTraceServiceRequest"):
        check(Signal.TRACES, b"\xff\xff", LIMITS)


@pytest.mark.parametrize(
    ("scope", "is_own"),
    [
        pytest.param("otel_agenteval", True, id="ours"),
        pytest.param("otel_agenteval.sending.export", True, id="below ours"),
        pytest.param("agenteval_collector.judge", True, id="below the collector's"),
        pytest.param("otel_agenteval_plugins", False, id="with a name that begins like ours"),
        pytest.param("agent.otel_agenteval", False, id="with our name elsewhere"),
        pytest.param("", False, id="without a name"),
    ],
)
def test_telemetry_of_our_own_scopes_and_of_those_below_is_dropped(scope: str, is_own: bool) -> None:
    found = checked(traces(span(1, 1), span(1, 2), scope=scope), Signal.TRACES)
    assert (found.own, found.accepted, found.rejected) == ((2, 0, 0) if is_own else (0, 2, 0))
    assert len(items(found)) == found.accepted


def test_what_is_as_large_as_its_limit_is_kept_and_a_byte_more_is_not() -> None:
    body = SPANS.SerializeToString()
    largest = max(map(len, items(checked(SPANS, Signal.TRACES))))
    assert check(Signal.TRACES, body, Limits(request=len(body), span=largest)).accepted == 3
    assert check(Signal.TRACES, body, Limits(request=len(body), span=largest - 1)).rejected == 1
    with pytest.raises(RequestTooLarge):
        check(Signal.TRACES, body, Limits(request=len(body) - 1, span=largest))


def test_every_resource_and_scope_is_checked_also_behind_one_with_a_bad_span() -> None:
    request = traces(span(1, 1), Span())
    resource = request.resource_spans[0]
    resource.scope_spans.append(resource.scope_spans[0])
    request.resource_spans.append(resource)
    found = checked(request, Signal.TRACES)
    assert (found.accepted, found.rejected) == (4, 4)
    assert items(found) == [span(1, 1).SerializeToString()] * 4


def test_an_ordinary_request_is_kept_as_it_came() -> None:
    body = SPANS.SerializeToString()
    assert check(Signal.TRACES, body, LIMITS).bodies == [body]


def test_a_large_request_is_kept_in_parts_with_all_it_had() -> None:
    large = traces(*(span(n, 1, text="x" * 9000) for n in range(1, 1000)))
    large.resource_spans[0].schema_url = "https://schema"
    large.resource_spans.add().CopyFrom(traces(span(7, 9), service="other").resource_spans[0])
    found = checked(large, Signal.TRACES)
    assert found.accepted == 1000
    assert 3 <= len(found.bodies) <= 4
    assert max(map(len, found.bodies)) < 1.1 * PART
    assert _placed(found.bodies) == _placed([large.SerializeToString()])


def test_many_small_resources_share_a_part() -> None:
    request = ExportTraceServiceRequest()
    for number in range(1, 60_000):
        request.resource_spans.add().scope_spans.add().spans.append(span(number, 1))
    assert len(checked(request, Signal.TRACES).bodies) < 5


def _placed(bodies: list[bytes]) -> Counter[bytes]:
    """Every span with all that is above it."""
    placed: Counter[bytes] = Counter()
    for body in bodies:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for each in scope.spans:
                    alone = ExportTraceServiceRequest()
                    of_resource = alone.resource_spans.add(resource=resource.resource, schema_url=resource.schema_url)
                    of_resource.scope_spans.add(scope=scope.scope, schema_url=scope.schema_url, spans=[each])
                    placed[alone.SerializeToString()] += 1
    return placed


@pytest.mark.parametrize(
    ("signal", "body"),
    [
        (Signal.TRACES, b"\x7a\x05hello"),
        (Signal.LOGS, b"\x7a\x05hello"),
    ],
)
def test_a_body_with_nothing_of_an_export_request_is_refused(signal: Signal, body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="nothing of a"):
        check(signal, body, Limits(10_000, 10_000))


def test_an_empty_request_is_accepted() -> None:
    assert check(Signal.TRACES, b"", Limits(10_000, 10_000)).bodies == []


@pytest.mark.parametrize("text", ['{"foo": [1]}', '{"data": []}', '{"resourceSpan": []}', '{"resourceLogs": []}'])
def test_json_without_the_list_of_a_request_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="it has no resourceSpans"):
        parse_json(Signal.TRACES, text.encode(), Checked())


@pytest.mark.parametrize("text", ["{}", '{"resourceSpans": []}', '{"resource_spans": []}', '{"resourceSpans": null}'])
def test_an_empty_request_in_json_is_accepted(text: str) -> None:
    assert parse_json(Signal.TRACES, text.encode(), Checked()) == b""
