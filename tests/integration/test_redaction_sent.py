"""What leaves the agent where `redact` is set: everything that is sent is read as bytes."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import TraceState

import otel_agenteval
from otel_agenteval.sending.redacting import MAX_CHARACTERS
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


def test_an_extent_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="redact is 'some': give secrets, all or off"):
        otel_agenteval.AgentEvalSpanProcessor(redact="some")
