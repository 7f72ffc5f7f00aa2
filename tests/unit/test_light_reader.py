"""The light reader against the full one: every tool that a span executed is the same step in both."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from otel_agenteval.conventions.agents import agent_of
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.detectors.fingerprints import MAX_DECODED, decoded_json, fingerprint
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, steps_of
from otel_agenteval.detectors.tool_names import only_hands_over
from otel_agenteval.loops.light_reader import (
    MAX_WRAPPED,
    arguments_in,
    kind_of,
    result_in,
    session_of,
    step_of,
)
from tests.support.recordings import name_of, recorded_spans, recorded_traces, recordings

RECORDINGS = recordings("corpus", "recorded")
# What tools were asked and answered stands in log records alone, which have not come when a span ends.
CONTENT_IN_LOGS = "otel-genai-langchain--multiturn-eventonly.otlp.pb"


def light(span: SpanRecord) -> Step | None:
    return step_of(
        span_id=span.span_id or "",
        name=span.name,
        attributes=span.attributes,
        events=[(event.name, event.attributes) for event in span.events],
        failed=span.status == 2,
        status_message=span.status_message,
        started_at=span.started_at,
        ended_at=span.ended_at,
    )


def compared(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "arguments": decoded_json(step.arguments),
        "result": decoded_json(step.result),
        "failed": step.error is not None,
    }


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_tools_that_spans_executed_are_those_of_the_full_reader(path: Any) -> None:
    for trace_id, spans in recorded_spans(path).items():
        trace = recorded_traces(path)[trace_id]
        executed = {call.span_id for turn in trace.turns for call in turn.tool_calls if call.span_id}
        full = [step for step in steps_of(trace) if step.kind is StepKind.TOOL and step.span_id in executed]
        tools = [step for span in spans if (step := light(span)) and step.kind is StepKind.TOOL]
        found = {step.span_id: step for step in tools if not only_hands_over(step.name, step.arguments)}
        assert found.keys() == {step.span_id for step in full}
        for step in full:
            expected, actual = compared(step), compared(found[step.span_id])
            if path.name == CONTENT_IN_LOGS:
                assert (actual["arguments"], actual["result"]) == (None, None), "no longer an exception"
                expected |= {"arguments": None, "result": None}
            if "langfuse.observation.level" in path.read_bytes().decode(errors="ignore"):
                # Langfuse's level marks the error in place of a status. The reader beside the agent does not know it.
                expected |= {"failed": actual["failed"]}
            if is_bare(actual["arguments"], expected["arguments"]):
                expected |= {"arguments": actual["arguments"]}
            assert actual == expected


def is_bare(found: Any, full: Any) -> bool:
    """Whether the span of a tool has the only argument's value alone: its name stands on the model's span."""
    named = full if isinstance(full, dict) else {}
    return [str(value) for value in named.values()] == [found]


def test_replies_are_those_of_the_full_reader_or_none() -> None:
    seen: Counter[str] = Counter()
    for path in RECORDINGS:
        for trace_id, spans in recorded_spans(path).items():
            found = {step.span_id: step for span in spans if (step := light(span))}
            for step in steps_of(recorded_traces(path)[trace_id]):
                if step.kind is StepKind.MODEL:
                    read = found.get(step.span_id)
                    same = read is not None and fingerprint(read.reply) == fingerprint(step.result)
                    seen["same" if same else "not read" if read and read.reply is None else path.name] += 1
    # The first instrumentation of openai-agents writes a call as the `repr` of an object, in place of a text, and so
    # does LiteLLM within a span of the program's.
    others = {name: n for name, n in seen.items() if name not in ("same", "not read")}
    assert all(name.startswith(("openai-agents-v2--", "litellm--toolerror-parent")) for name in others), others
    assert seen["same"] > 0.85 * seen.total()


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        pytest.param("GET /", {}, StepKind.OTHER, id="any other span"),
        pytest.param("invoke_agent a", {"gen_ai.operation.name": "invoke_agent"}, StepKind.OTHER, id="a run"),
        pytest.param("execute_tool t", {"gen_ai.operation.name": "execute_tool"}, StepKind.TOOL, id="a tool"),
        pytest.param("chat m", {"gen_ai.operation.name": "chat"}, StepKind.MODEL, id="a model call"),
        pytest.param("tools/call t", {"mcp.method.name": "tools/call"}, StepKind.TOOL, id="a tool of another process"),
        pytest.param(
            "execute_tool (merged tools)",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"},
            StepKind.OTHER,
            id="the joined responses of parallel calls",
        ),
        pytest.param(
            "handoff to b", {"openinference.span.kind": "TOOL"}, StepKind.OTHER, id="a hand-off to another agent"
        ),
        pytest.param(
            "transfer_to_b",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "null"},
            StepKind.OTHER,
            id="a tool that only hands over",
        ),
        pytest.param(
            "transfer_to_savings",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": '{"eur": 5}'},
            StepKind.TOOL,
            id="a tool of the user's that is called as those are",
        ),
        pytest.param(
            "FinalAnswerTool",
            {"openinference.span.kind": "TOOL", "tool.name": "final_answer"},
            StepKind.OTHER,
            id="a tool by which a framework has its model answer",
        ),
        pytest.param("x", {"gen_ai.operation.name": ["chat"]}, StepKind.OTHER, id="an attribute of the wrong type"),
    ],
)
def test_kind(name: str, attributes: dict[str, Any], kind: StepKind) -> None:
    assert kind_of(name, attributes) is kind


def tool(**attributes: Any) -> Step:
    step = step_of(
        span_id="1", name="t", attributes={"gen_ai.operation.name": "execute_tool", **attributes}, failed=False
    )
    assert step is not None
    return step


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '"' * 9, '{"a":' * 5000, "\ud800", 7, [None, {"a": [1]}], "x" * (2 * MAX_DECODED), {"kwargs": 3}],
    ids=["deep", "quotes", "cut", "half a surrogate", "a number", "decoded", "long", "a wrapper of nothing"],
)
def test_hostile_content_is_compared_and_raises_nothing(content: Any) -> None:
    names = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.name", "gen_ai.agent.name")
    step = tool(**dict.fromkeys(names, content))
    assert decoded_json(step.arguments) == decoded_json(tool(**dict.fromkeys(names, content)).arguments)
    chat = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": content, "gen_ai.usage.input_tokens": content}
    assert step_of(span_id="1", name="c", attributes=chat) is not None


@pytest.mark.parametrize(
    ("read", "name"),
    [pytest.param(arguments_in, "inputs", id="arguments"), pytest.param(result_in, "output", id="result")],
)
def test_wrappings_are_taken_off_to_some_depth(read: Callable[[Any], Any], name: str) -> None:
    def wrapped(times: int) -> Any:
        value: Any = {"q": "a"}
        for _ in range(times):
            value = {name: value, "tags": []}
        return value

    assert read(wrapped(MAX_WRAPPED)) == {"q": "a"}
    assert read(wrapped(MAX_WRAPPED + 1)) == wrapped(1)
    assert read(wrapped(100_000)) is not None, "decoded content is nested as deeply as it likes"


def test_ids_of_calls_do_not_tell_results_apart() -> None:
    def message(call_id: str) -> str:
        return f'{{"content": "no rows", "type": "tool", "tool_call_id": "{call_id}"}}'

    one, other = (tool(**{"gen_ai.tool.call.result": message(call_id)}) for call_id in ("1", "2"))
    assert one.result == other.result == "no rows"


def test_result_that_tells_of_an_error_is_a_failure() -> None:
    assert tool(**{"gen_ai.tool.call.result": '{"status": "error", "error": "no such city"}'}).error == "no such city"
    assert tool(**{"gen_ai.tool.call.result": "Error: no such city"}).error == "Error: no such city"
    assert tool(**{"gen_ai.tool.call.result": "no error was found"}).error is None


def test_failed_span_says_why() -> None:
    attributes = {"gen_ai.operation.name": "chat", "error.type": "TimeoutError"}
    raised = [("exception", {"exception.message": "timed out", "exception.type": "TimeoutError"})]
    for events, message, said in ((raised, "late", "timed out"), ((), "late", "late"), ((), None, "TimeoutError")):
        step = step_of(span_id="1", name="c", attributes=attributes, events=events, failed=True, status_message=message)
        assert step is not None
        assert step.error == said


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("tools/call t", {"mcp.method.name": "tools/call"}),
        ("execute_tool t", {"gen_ai.operation.name": "execute_tool"}),
    ],
)
def test_the_name_of_a_span_names_the_tool_where_no_attribute_does(name: str, attributes: dict[str, Any]) -> None:
    step = step_of(span_id="1", name=name, attributes=attributes)
    assert step is not None
    assert step.name == "t"


def test_agents_and_sessions_by_name() -> None:
    assert agent_of("chat m", {"gen_ai.agent.name": "planner"}) == "planner"
    assert agent_of("chat m", {"gen_ai.agent.name": "OpenAI Agent"}) is None
    assert session_of({"session.id": "s", "gen_ai.conversation.id": "c"}) == "c"
    assert session_of({"session.id": 7}) is None


def test_recorded_agents_loop_in_the_same_traces_as_where_whole_traces_are_read() -> None:
    found = {}
    for path in RECORDINGS:
        for trace_id, spans in recorded_spans(path).items():
            detectors = Detectors("s-1", trace_id, RuleBook())
            steps = [step for span in sorted(spans, key=lambda span: span.ended_at) if (step := light(span))]
            kinds = [loop.kind for step in steps for loop in detectors.observe(step)]
            if kinds:
                found[path.name] = kinds
    # Its framework asks the model three times for an answer, and gets the same error.
    assert found == {"openinference-crewai--llmerror.otlp.pb": ["error_storm"]}
