"""Agents and their runs: the same beside the agent, span by span, as where whole traces are read."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_agenteval.conventions.agents import agent_of, is_agent_run
from otel_agenteval.conventions.dialect import SpanRole
from otel_agenteval.conventions.span_reader import read_span
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.detectors.rules import RepetitionRule, RuleBook, Rules
from otel_agenteval.finding import Mode
from otel_agenteval.loops.attribution import StartedSpan, agent_named, owner_of
from otel_agenteval.model import AgentRun, ModelCall, ToolCall
from tests.support.agent_spans import call
from tests.support.recordings import name_of, recorded_spans, recorded_traces, recordings
from tests.support.watched import Watched

RECORDINGS = recordings("corpus", "recorded")
# Recorded in JavaScript, where a run seems to end a little before what it did.
COARSE_CLOCK = "vercel-ai--"
OFF = Rules(identical_call=RepetitionRule(mode=Mode.OFF))
OPENAI_AGENTS = "openinference.instrumentation.openai_agents"

FORMS: dict[str, tuple[str, dict[str, str]]] = {
    "OpenTelemetry": ("invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}),
    "OpenTelemetry, by the span's name": ("invoke_agent bot", {"gen_ai.operation.name": "invoke_agent"}),
    "OpenInference": ("run", {"openinference.span.kind": "AGENT", "agent.name": "bot"}),
    "OpenInference, a node of a graph": ("run", {"openinference.span.kind": "AGENT", "graph.node.id": "bot"}),
    "OpenInference, a node with a generated id": (
        "Agent.run",
        {"openinference.span.kind": "AGENT", "graph.node.id": "9f3c1a2b4d5e6f70", "graph.node.name": "bot"},
    ),
    "OpenInference, with a generated id alone": (
        "bot.run",
        {"openinference.span.kind": "AGENT", "graph.node.id": "9f3c1a2b4d5e6f709f3c1a2b4d5e6f70"},
    ),
    "OpenInference, by the span's name": ("bot.run", {"openinference.span.kind": "AGENT"}),
    "Traceloop": ("bot.agent", {"traceloop.span.kind": "agent", "traceloop.entity.name": "bot"}),
    "Langfuse": ("bot", {"langfuse.observation.type": "agent"}),
    "MLflow": ("bot", {"mlflow.spanType": '"AGENT"'}),
    "Vercel AI SDK": (
        "ai.generateText",
        {"ai.operationId": "ai.generateText", "ai.telemetry.functionId": "bot"},
    ),
    "Pydantic AI": ("agent run", {"agent_name": "bot", "all_messages_events": "[]"}),
    "Google ADK": ("agent_run [bot]", {}),
}
NAMELESS: dict[str, tuple[str, dict[str, str], str]] = {
    "a workflow": ("Agent workflow", {"openinference.span.kind": "AGENT"}, OPENAI_AGENTS),
    "nobody": ("x", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "OpenAI Agent"}, ""),
    "no name in the span's": ("invoke_agent", {"gen_ai.operation.name": "invoke_agent"}, ""),
    "a method": ("Agent.run", {"mlflow.spanType": '"AGENT"'}, ""),
    "redacted": ("x", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "__REDACTED__"}, ""),
    "blank": (" ", {"langfuse.observation.type": "agent"}, ""),
}
forms = pytest.mark.parametrize(("name", "attributes"), FORMS.values(), ids=FORMS)


def named(name: str, attributes: dict[str, str], scope: str = "") -> tuple[bool, str | None]:
    """Whether it is a run and of whom, by both readings."""
    facts, _ = read_span(SpanRecord(span_id="1", name=name, attributes=attributes, scope=scope))
    assert facts is not None
    light = (is_agent_run(name, attributes), agent_of(name, attributes, scope))
    assert light == (facts.role is SpanRole.AGENT, facts.agent)
    return light


@forms
def test_run_names_its_agent(name: str, attributes: dict[str, str]) -> None:
    assert named(name, attributes) == (True, "bot")


@pytest.mark.parametrize(("name", "attributes", "scope"), NAMELESS.values(), ids=NAMELESS)
def test_run_of_nobody(name: str, attributes: dict[str, str], scope: str) -> None:
    assert named(name, attributes, scope) == (True, None)


@pytest.mark.parametrize("value", [7, None, ["agent"], ("AGENT",), {"a": 1}, "\ud800", "x" * 100_000])
def test_hostile_values_name_nobody_and_raise_nothing(value: Any) -> None:
    for _, marks in FORMS.values():
        assert agent_of("x", {key: value for key in marks if key != "gen_ai.agent.name"}) in (None, value)
        assert is_agent_run("x", dict.fromkeys(marks, value)) in (False, "agent_name" in marks)


def of(agent: str, form: tuple[str, dict[str, str]]) -> tuple[str, dict[str, str]]:
    """The span of another agent's run in the same form."""
    name, attributes = form
    return name.replace("bot", agent), {key: text.replace("bot", agent) for key, text in attributes.items()}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_equal_calls_of_three_agents_are_no_loop(form: tuple[str, dict[str, str]]) -> None:
    watched = Watched()
    with watched.within(*of("boss", form)):
        for agent in ("a", "b", "c"):
            with watched.within(*of(agent, form)):
                call(watched.tracer)
    assert not watched.found


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rules_go_by_the_name_of_the_agent(form: tuple[str, dict[str, str]]) -> None:
    rules = RuleBook(
        agents={
            "silent": OFF,
            "patient": Rules(identical_call=RepetitionRule(repeats=5)),
        }
    )
    found = []
    for agent in ("silent", "patient", "other"):
        watched = Watched(rules)
        with watched.within(*of(agent, form)):
            for _ in range(4):
                call(watched.tracer)
        found += [(loop.kind, loop.agent) for loop in watched.found]
    assert found == [("identical_call", "other")]


_Whose = tuple[str | None, AgentRun | None]


def beside_the_agent(spans: list[SpanRecord]) -> dict[str, _Whose]:
    """Owner each span is by those that are open when it ends, in the order in which they began and ended."""
    tracers = TracerProvider(shutdown_on_exit=False)
    by_id = {span.span_id: span for span in spans}
    made: dict[str | None, Any] = {}

    def make(span: SpanRecord) -> Any:
        if span.span_id not in made:
            parent = by_id.get(span.parent_id)
            context = Context() if parent is None else set_span_in_context(make(parent), Context())
            made[span.span_id] = tracers.get_tracer(span.scope).start_span(
                span.name, context, attributes=dict(span.attributes), start_time=span.started_at
            )
        return made[span.span_id]

    moments = []
    for span in spans:
        make(span)
    depth = {span_id: len(_around(by_id, span_id)) for span_id in by_id}
    for span_id, span in by_id.items():
        moments += [(span.started_at, 0, depth[span_id], span_id), (span.ended_at, 1, -depth[span_id], span_id)]
    ids = {each.context.span_id: str(span_id) for span_id, each in made.items()}
    is_open: dict[int, StartedSpan] = {}
    found = {}
    for _, is_end, _, span_id in sorted(moments):
        span = made[span_id]
        if not is_end:
            is_open[span.context.span_id] = StartedSpan(span, None)
            continue
        is_open.pop(span.context.span_id)
        agent, run, *_ = owner_of(span, is_open)
        run = run._replace(span_id=ids[int(run.span_id, 16)]) if run else None
        found[str(span_id)] = agent or agent_named(span, span.attributes), run
    return found


def _around(by_id: dict[str | None, SpanRecord], span_id: str | None) -> list[str]:
    around = []
    while (span := by_id.get(span_id)) is not None and span.parent_id is not None:
        span_id = span.parent_id
        around.append(span_id)
    return around


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_steps_are_of_the_same_agents_and_runs_as_where_whole_traces_are_read(path: Path) -> None:
    steps = 0
    for trace_id, spans in recorded_spans(path).items():
        found = beside_the_agent(spans)
        ended = {span.span_id: span.ended_at for span in spans}
        outlived = {span.span_id for span in spans if span.ended_at > ended.get(span.parent_id, span.ended_at)}
        for turn in recorded_traces(path)[trace_id].turns:
            of_turn: list[ToolCall | ModelCall] = [*turn.tool_calls, *turn.model_calls]
            for step in of_turn:
                if step.span_id is not None and not (path.name.startswith(COARSE_CLOCK) and step.span_id in outlived):
                    assert found[step.span_id] == (step.agent, step.agent_run)
                    steps += 1
    assert steps


GRAPH = '{"thread_id": "t", "ls_integration": "langgraph"}'


@pytest.mark.parametrize(
    ("name", "metadata", "expected"),
    [
        pytest.param("model", '{"lc_agent_name": "concierge", "langgraph_step": 1}', "concierge", id="in a step"),
        pytest.param("model", '{"lc_agent_name":"caf\\u00e9 \\"7\\""}', 'café "7"', id="escaped"),
        pytest.param("concierge", GRAPH, "concierge", id="the root of a graph"),
        pytest.param("LangGraph", GRAPH, None, id="the root of a graph without a name"),
        pytest.param("model", GRAPH[:-1] + ', "langgraph_step": 1}', None, id="a node of a graph"),
        pytest.param("model", '{"lc_agent_name": null}', None, id="no name"),
        pytest.param("model", '{"lc_agent_name": "\\x"}', None, id="no JSON"),
        pytest.param("model", 7, None, id="no text"),
    ],
)
def test_langchain_names_agents_in_metadata(name: str, metadata: Any, expected: str | None) -> None:
    assert agent_of(name, {"openinference.span.kind": "CHAIN", "metadata": metadata}) == expected
