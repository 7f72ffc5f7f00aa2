"""What leaves the agent where `redact` is set: everything that is sent is read as bytes."""

import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import TraceState

import otel_agenteval
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.sending.encoding import Encoder
from otel_agenteval.sending.redacting import MAX_CHARACTERS, SpanRedaction
from tests.support.attached import Make, collector, make
from tests.support.fake_collector import FakeCollector, attributes

__all__ = ["collector", "make"]

ADDRESS = "ann.lee@example.com"
SECRETS = [f"Zq{number}kw7-hTr{number}" for number in range(7)]


def sent(collector: FakeCollector) -> bytes:
    return b"".join(span.SerializeToString() for span in collector.spans())


def record(tracer: trace.Tracer) -> None:
    link = trace.Link(trace.SpanContext(1, 1, False), {"DB_PASS": SECRETS[0]})
    with (
        otel_agenteval.session(ADDRESS),
        tracer.start_as_current_span(f"login token={SECRETS[1]}", links=[link]) as span,
    ):
        span.set_attribute("said", f"I am {ADDRESS}, my password is {SECRETS[2]}")
        span.set_attribute("argv", ["curl", "-u", f"admin:{SECRETS[3]}"])
        span.add_event(f"secret={SECRETS[4]}", {"password": SECRETS[5]})
        span.set_status(trace.StatusCode.ERROR, f"no login with api_key={SECRETS[6]}")


@pytest.mark.parametrize(("extent", "address_stays"), [("secrets", True), ("all", False)])
def test_no_secret_leaves(collector: FakeCollector, make: Make, extent: str, address_stays: bool) -> None:
    processor, tracer = make(redact=extent)
    record(tracer)
    assert processor.force_flush()
    assert [each for each in SECRETS if each.encode() in sent(collector)] == []
    found = attributes(collector.spans()[0])
    assert (ADDRESS in found["said"]) is address_stays
    assert found["agenteval.session.id"] == ADDRESS


def test_no_secret_leaves_beside_a_span(collector: FakeCollector, make: Make) -> None:
    provider = TracerProvider(
        shutdown_on_exit=False, resource=Resource({"DB_PASS": SECRETS[0]}, f"https://x.io/?token={SECRETS[1]}")
    )
    processor, _ = make(redact="secrets", provider=provider)
    tracer = provider.get_tracer(f"api_key={SECRETS[2]}", f"token={SECRETS[3]}", f"https://x.io/?token={SECRETS[4]}")
    state = TraceState([("password", SECRETS[5])])
    parent = trace.NonRecordingSpan(trace.SpanContext(1, 1, True, trace.TraceFlags(1), state))
    with tracer.start_as_current_span("step", trace.set_span_in_context(parent)):
        pass
    assert processor.force_flush()
    [body] = collector.received.requests
    assert [each for each in SECRETS if each.encode() in body] == []


def test_no_secret_leaves_before_the_end_of_a_span(collector: FakeCollector, make: Make) -> None:
    provider = TracerProvider(shutdown_on_exit=False, resource=Resource({"service.name": f"token={SECRETS[0]}"}))
    processor, tracer = make(redact="all", live=True, provider=provider)
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"token={SECRETS[1]}"}
    with (
        otel_agenteval.session(ADDRESS),
        tracer.start_as_current_span("invoke_agent", attributes=agent),
        tracer.start_as_current_span(f"chat with {ADDRESS}, token={SECRETS[2]}"),
    ):
        assert collector.wait_for(lambda got: sum(len(each.starts) for each in got.starts) >= 2)
    assert processor.force_flush()
    announced = b"".join(each.SerializeToString() for each in collector.received.starts)
    assert [each for each in SECRETS if each.encode() in announced] == []
    starts = {start.span_id: start for each in collector.received.starts for start in each.starts}
    assert {start.session_id for start in starts.values()} == {ADDRESS}
    assert {start.name for start in starts.values()} == {span.name for span in collector.spans()}


@pytest.mark.parametrize("extent", ["secrets", "all"])
def test_no_secret_leaves_in_the_announcement_of_a_call_that_hangs(extent: str) -> None:
    said = f"the call token={SECRETS[0]} hangs"
    loop = pb.Finding(
        kind="hung_span", tool=f"token={SECRETS[1]}", reason=said, metadata_json=json.dumps({"tool": said}).encode()
    )
    sent = pb.ReportStartsRequest.FromString(
        Encoder(redaction=SpanRedaction(extent)).announcement(pb.ReportStartsRequest(findings=[loop]))
    )
    assert [each for each in SECRETS if each.encode() in sent.SerializeToString()] == []
    assert (sent.findings[0].kind, sent.findings[0].reason.startswith("the call token=[")) == ("hung_span", True)


def test_everything_leaves_as_it_is_without(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make()
    record(tracer)
    assert processor.force_flush()
    assert [each for each in SECRETS if each.encode() not in sent(collector)] == []


def test_the_environment_says_so_too(collector: FakeCollector, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTEVAL_REDACT", "all")
    monkeypatch.setenv("AGENTEVAL_REDACTION_KEY", "shared by both")
    said = []
    for _ in range(2):
        processor, tracer = make()
        record(tracer)
        assert processor.force_flush()
        said.append(attributes(collector.spans()[-1])["said"])
    assert said[0] == said[1]
    assert "[EMAIL_" in said[0]


def test_what_is_too_long_to_be_redacted_does_not_leave(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(redact="secrets")
    with tracer.start_as_current_span("root") as span:
        span.set_attribute("huge", "x " * (MAX_CHARACTERS // 2) + f"password={SECRETS[0]}")
        span.set_attribute("small", "hello")
    assert processor.force_flush()
    found = attributes(collector.spans()[0])
    assert "characters left out" in found["huge"]
    assert found["small"] == "hello"


def test_a_long_text_costs_no_other_text_its_place(collector: FakeCollector, make: Make) -> None:
    provider = TracerProvider(shutdown_on_exit=False, resource=Resource({"service.name": "billing"}))
    processor, _ = make(redact="secrets", provider=provider)
    with provider.get_tracer("tools", attributes={"team": "payments"}).start_as_current_span("root") as span:
        span.set_attribute("large", "x " * (MAX_CHARACTERS // 2 - 10))
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
    assert processor.force_flush()
    [body] = collector.received.requests
    assert b"characters left out" in body
    assert attributes(collector.spans()[0])["gen_ai.operation.name"] == "invoke_agent"
    assert [each for each in (b"service.name", b"billing", b"tools", b"team", b"payments") if each not in body] == []


def test_many_messages_cost_no_other_attribute_its_place(collector: FakeCollector, make: Make) -> None:
    processor, tracer = make(redact="secrets")
    with tracer.start_as_current_span("root") as span:
        message = {"role": "user", "content": "hello there, my friend"}
        span.set_attribute("gen_ai.input.messages", json.dumps([message] * (MAX_CHARACTERS // 20)))
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
    assert processor.force_flush()
    found = attributes(collector.spans()[0])
    assert found["gen_ai.operation.name"] == "invoke_agent"
    assert "characters left out" in found["gen_ai.input.messages"]


def test_an_extent_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="redact is 'some': give secrets, all or off"):
        otel_agenteval.AgentEvalSpanProcessor(redact="some")
