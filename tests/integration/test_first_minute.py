"""What the client says in the log where nothing GenAI comes, and where the address is another port's."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_agenteval import AgentEvalSpanProcessor
from otel_agenteval.doctor.first_minute import LONGEST, PATIENCE, FirstMinute
from tests.support.eventually import eventually
from tests.support.fake_collector import FakeCollector
from tests.support.running_collector import RunningCollector


class Clock:
    """A clock that a test puts ahead, in seconds."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def traced(clock: Clock) -> Iterator[TracerProvider]:
    """A provider whose spans go to a collector, by this clock."""
    with FakeCollector() as collector:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(AgentEvalSpanProcessor(collector.endpoint, monotonic=clock))
        yield provider
        provider.shutdown()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was told of the first minute."""
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [each for each in told if "agenteval doctor" in each]


def end_span(
    provider: TracerProvider, scope: str = "opentelemetry.instrumentation.requests", **attributes: str
) -> None:
    provider.get_tracer(scope).start_span("GET", attributes=attributes).end()
    assert provider.force_flush(10_000)


def test_spans_that_are_not_genai_are_told_of_once_after_a_minute(
    traced: TracerProvider, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    end_span(traced)
    assert warnings(caplog) == []
    clock.ahead = PATIENCE
    end_span(traced)
    end_span(traced)
    [told] = eventually(lambda: warnings(caplog))
    assert "opentelemetry.instrumentation.requests" in told
    assert "install an instrumentation" in told


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "chat"},
        {"gen_ai.agent.name": "planner"},
        {"openinference.span.kind": "LLM"},
        {"traceloop.span.kind": "agent"},
    ],
)
def test_one_genai_span_is_enough(
    traced: TracerProvider, clock: Clock, caplog: pytest.LogCaptureFixture, attributes: dict[str, str]
) -> None:
    end_span(traced)
    end_span(traced, **attributes)
    clock.ahead = 2 * PATIENCE
    end_span(traced)
    traced.shutdown()
    assert warnings(caplog) == []


def test_no_span_at_all_is_told_of_by_a_thread_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    minute = FirstMinute(lambda: False, patience=0.01)
    minute.start()
    [told] = eventually(lambda: warnings(caplog))
    minute.stop()
    assert "no span ended" in told
    assert "another tracer provider" in told


def test_a_span_that_is_open_is_waited_for_but_not_for_ever(
    traced: TracerProvider, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with traced.get_tracer("a").start_as_current_span("turn"):
        clock.ahead = PATIENCE
        end_span(traced)
        assert warnings(caplog) == []
        clock.ahead = LONGEST * PATIENCE
        end_span(traced)
        assert len(eventually(lambda: warnings(caplog))) == 1


def test_a_cause_in_the_environment_is_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    minute = FirstMinute(lambda: False, patience=0.0)
    minute.start()
    assert "OTEL_SDK_DISABLED is set" in eventually(lambda: warnings(caplog))[0]
    minute.stop()


def test_a_process_that_leaves_its_work_to_children_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    minute = FirstMinute(lambda: False, patience=0.0)
    minute.forked = True
    minute.start()
    minute.stop()
    assert warnings(caplog) == []


@pytest.mark.parametrize("work", ["pass", "trace.get_tracer('a').start_span('GET').end()"])
def test_a_process_that_ends_sooner_is_told_nothing(work: str) -> None:
    with FakeCollector() as collector:
        attach = f"import otel_agenteval; otel_agenteval.attach(endpoint={collector.endpoint!r}); "
        code = f"from opentelemetry import trace; {attach}{work}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""


@pytest.mark.parametrize("port", ["http", "web"])
def test_a_wrong_port_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture, port: str) -> None:
    with RunningCollector(tmp_path) as running:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(AgentEvalSpanProcessor(f"http://{running.addresses[port]}", shutdown_timeout=0.5))
        provider.get_tracer("t").start_span("chat", attributes={"gen_ai.operation.name": "chat"}).end()
        eventually(lambda: "4318 is OTLP/HTTP and 4319 the page, use 4317" in caplog.text)
        provider.shutdown()
