"""`attach()` and the ways without code, each in a process of its own, because a tracer provider is set once."""

import sys
from pathlib import Path

import pytest

from tests.support.agents import run_agent
from tests.support.fake_collector import FakeCollector

AGENTEVAL = str(Path(sys.executable).with_name("agenteval"))
INSTRUMENT = Path(sys.executable).with_name("opentelemetry-instrument")

IMPORTS = """
import logging, sys
import otel_agenteval
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import ProxyTracerProvider
logging.basicConfig(format="%(levelname)s %(message)s")
"""

CASES = [
    pytest.param(
        """
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
        otel_agenteval.attach()
        assert trace.get_tracer_provider() is provider
        trace.get_tracer("a").start_span("span").end()
        """,
        ["span"],
        id="the provider is set before",
    ),
    pytest.param(
        """
        otel_agenteval.attach()
        assert isinstance(trace.get_tracer_provider(), ProxyTracerProvider), "libraries must still find none set"
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
        assert trace.get_tracer_provider() is provider
        trace.get_tracer("a").start_span("span").end()
        """,
        ["span"],
        id="the provider is set afterwards",
    ),
    pytest.param(
        """
        otel_agenteval.attach()
        with trace.get_tracer("a").start_as_current_span("span"):
            pass
        """,
        ["span"],
        id="no provider is ever set",
    ),
    pytest.param(
        """
        early = trace.get_tracer("early")
        otel_agenteval.attach()
        between = trace.get_tracer("between")
        early.start_span("early on ours").end()
        between.start_span("between on ours").end()
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
        assert trace.get_tracer_provider() is provider, "ours must not use up the one chance"
        for tracer in (early, between):
            span = tracer.start_span("on theirs")
            assert span.resource is provider.resource
            span.end()
        """,
        ["early on ours", "between on ours", "on theirs", "on theirs"],
        id="tracers from before follow a provider that is set after spans were made",
    ),
    pytest.param(
        """
        tracer = trace.get_tracer("early")
        @tracer.start_as_current_span("decorated")
        def work(): pass
        otel_agenteval.attach()
        @trace.get_tracer("late").start_as_current_span("decorated late")
        def work_late(): pass
        trace.set_tracer_provider(TracerProvider())
        work_late(); work()
        """,
        ["decorated late", "decorated"],
        id="tracers as decorators follow too",
    ),
    pytest.param(
        """
        first = otel_agenteval.attach()
        trace.set_tracer_provider(TracerProvider())
        assert otel_agenteval.attach() is first
        assert otel_agenteval.attach() is first
        trace.get_tracer("a").start_span("span").end()
        """,
        ["span"],
        id="attach() again changes nothing",
    ),
    pytest.param(
        """
        provider = TracerProvider()
        own = otel_agenteval.AgentEvalSpanProcessor()
        provider.add_span_processor(own)
        trace.set_tracer_provider(provider)
        assert otel_agenteval.attach() is own
        trace.get_tracer("a").start_span("span").end()
        """,
        ["span"],
        id="the provider has our processor already",
    ),
    pytest.param(
        """
        otel_agenteval.attach()
        provider = TracerProvider()
        own = otel_agenteval.AgentEvalSpanProcessor()
        provider.add_span_processor(own)
        trace.set_tracer_provider(provider)
        assert otel_agenteval.attach() is own
        trace.get_tracer("a").start_span("span").end()
        """,
        ["span"],
        id="the provider that comes has our processor already",
    ),
    pytest.param(
        """
        otel_agenteval.attach()
        trace.get_tracer("a").start_span("span").end()
        assert trace.get_tracer_provider().force_flush()
        """,
        ["span"],
        id="the global provider can be flushed though none was set",
    ),
]


@pytest.mark.parametrize(("code", "expected"), CASES)
def test_spans_arrive_once_whenever_the_provider_is_set(code: str, expected: list[str]) -> None:
    with FakeCollector() as collector:
        agent = run_agent(IMPORTS + dedented(code), environ={"AGENTEVAL_ENDPOINT": collector.endpoint})
        assert sorted(span.name for span in collector.spans()) == sorted(expected), agent.stderr
    assert agent.stderr == ""


def dedented(code: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in code.splitlines())


def test_provider_made_for_an_agent_without_one_follows_the_environment() -> None:
    code = IMPORTS + "otel_agenteval.attach(); trace.get_tracer('a').start_span('span').end()"
    with FakeCollector() as collector:
        agent = run_agent(
            code,
            environ={
                "AGENTEVAL_ENDPOINT": collector.endpoint,
                "OTEL_SERVICE_NAME": "airline",
                "OTEL_TRACES_EXPORTER": "console",
            },
        )
        (resource, span), *rest = collector.spans_with_resource()
    assert (resource["service.name"], span.name, rest) == ("airline", "span", [])
    assert '"name": "span"' in agent.stdout
    assert "agenteval.process.id" not in agent.stdout, "nothing of ours shows up in other exporters"


def test_sampler_of_the_environment_is_kept() -> None:
    code = IMPORTS + "otel_agenteval.attach(); trace.get_tracer('a').start_span('span').end()"
    with FakeCollector() as collector:
        run_agent(code, environ={"AGENTEVAL_ENDPOINT": collector.endpoint, "OTEL_TRACES_SAMPLER": "always_off"})
        assert collector.received.requests == []


def test_foreign_provider_is_left_alone_with_one_warning() -> None:
    code = IMPORTS + (
        "class Foreign(trace.NoOpTracerProvider): pass\n"
        "foreign = Foreign(); trace.set_tracer_provider(foreign)\n"
        "otel_agenteval.attach(); otel_agenteval.attach()\n"
        "assert trace.get_tracer_provider() is foreign\n"
    )
    agent = run_agent(code, environ={"AGENTEVAL_ENDPOINT": "http://127.0.0.1:1"})
    assert agent.stderr.splitlines() == [
        "WARNING the tracer provider Foreign takes no span processors: agenteval sees none of its spans"
    ]


def test_options_of_a_second_attach_are_named_as_without_effect() -> None:
    code = IMPORTS + "otel_agenteval.attach(); otel_agenteval.attach(stamp=True)"
    agent = run_agent(code, environ={"AGENTEVAL_ENDPOINT": "http://127.0.0.1:1"})
    assert "the options of this attach() have no effect" in agent.stderr


@pytest.mark.parametrize("before", [pytest.param("", id="first"), pytest.param("otel_agenteval.attach()", id="again")])
def test_option_that_does_not_exist_is_refused_by_name(before: str) -> None:
    code = f"{IMPORTS}\n{before}\ntry: otel_agenteval.attach(bogus=1)\nexcept TypeError as error: print(error)"
    agent = run_agent(code, environ={"AGENTEVAL_ENDPOINT": "http://127.0.0.1:1"})
    assert "'bogus'" in agent.stdout


AGENT_WITHOUT_US = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
trace.get_tracer("a").start_span("span").end()
"""


def test_run_attaches_a_program_that_knows_nothing_of_us() -> None:
    with FakeCollector() as collector:
        run_agent(AGENT_WITHOUT_US, command=[AGENTEVAL, "run", "--endpoint", collector.endpoint, "--"])
        assert [span.name for span in collector.spans()] == ["span"]


def test_run_and_attach_in_code_send_a_span_once() -> None:
    code = AGENT_WITHOUT_US.replace("trace.set", "import otel_agenteval; otel_agenteval.attach()\ntrace.set")
    with FakeCollector() as collector:
        run_agent(code, command=[AGENTEVAL, "run", f"--endpoint={collector.endpoint}", "--"])
        assert [span.name for span in collector.spans()] == ["span"]


def test_run_keeps_another_sitecustomize_and_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['THEIRS'] = 'ran'")
    with FakeCollector() as collector:
        agent = run_agent(
            AGENT_WITHOUT_US + "import os, sys; print(os.environ['THEIRS']); sys.exit(3)",
            command=[AGENTEVAL, "run", "--"],
            environ={"PYTHONPATH": str(tmp_path), "AGENTEVAL_ENDPOINT": collector.endpoint},
            check=False,
        )
        assert [span.name for span in collector.spans()] == ["span"]
    assert (agent.returncode, agent.stdout, agent.stderr) == (3, "ran\n", "")


@pytest.mark.parametrize("endpoint", ["ftp://x", "nonsense", " http://127.0.0.1:4317/v1/traces"])
def test_run_with_an_endpoint_that_cannot_be_meant_leaves_the_program_running(endpoint: str) -> None:
    environ = {"AGENTEVAL_ENDPOINT": endpoint}
    agent = run_agent("print('done')", command=[AGENTEVAL, "run", "--"], environ=environ)
    assert agent.stdout == "done\n"
    assert f"AGENTEVAL_ENDPOINT is {endpoint!r}: give http://host:port" in agent.stderr
    assert "Traceback" not in agent.stderr


@pytest.mark.skipif(not INSTRUMENT.exists(), reason="opentelemetry-instrument is not installed")
class TestOpenTelemetryInstrument:
    """The entry point, under the real launcher."""

    code = "from opentelemetry import trace\ntrace.get_tracer('a').start_span('span').end()"

    def test_attaches_where_our_endpoint_is_set(self) -> None:
        with FakeCollector() as collector:
            environ = {"AGENTEVAL_ENDPOINT": collector.endpoint, "OTEL_TRACES_EXPORTER": "none"}
            run_agent(self.code, command=[str(INSTRUMENT)], environ=environ)
            assert [span.name for span in collector.spans()] == ["span"]

    def test_leaves_a_process_alone_where_it_is_not(self) -> None:
        code = self.code + "\nfrom otel_agenteval.processor import live_processors\nassert live_processors() == []"
        environ = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
        run_agent(code, command=[str(INSTRUMENT)], environ=environ)

    @pytest.mark.parametrize("outer", ["ours", "theirs"])
    def test_together_with_agenteval_run_a_span_arrives_once(self, outer: str) -> None:
        ours, theirs = [AGENTEVAL, "run", "--"], [str(INSTRUMENT)]
        with FakeCollector() as collector:
            environ = {"AGENTEVAL_ENDPOINT": collector.endpoint, "OTEL_TRACES_EXPORTER": "none"}
            command = ours + theirs if outer == "ours" else theirs + ours
            run_agent(self.code, command=command, environ=environ)
            assert [span.name for span in collector.spans()] == ["span"]
