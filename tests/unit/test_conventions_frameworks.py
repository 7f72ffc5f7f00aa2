"""Frameworks that write spans of their own: Genkit, Haystack, LlamaIndex, Mastra and Claude Code."""

import json
from typing import Any

import pytest

from otel_agenteval.conventions.spans import STATUS_ERROR, EventRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace, Usage

QUESTION, ANSWER = "What is the weather in Lisbon?", "It is sunny in Lisbon."
TOOL, ARGUMENTS, RESULT = "get_weather", {"city": "Lisbon"}, "sunny, 21 degrees"
ERROR = "the station is down"
TRACEBACK = "Traceback (most recent call last):"


class Recorder:
    """Writes the spans of a trace one after another."""

    def __init__(self, scope: str = "app") -> None:
        self.spans: list[SpanRecord] = []
        self.scope = scope

    def add(self, name: str, attributes: dict[str, Any], *, within: int | None = None, **more: Any) -> int:
        start = len(self.spans) + 1
        written = {
            key: value if isinstance(value, str | int) else json.dumps(value) for key, value in attributes.items()
        }
        parent = None if within is None else self.spans[within].span_id
        ends = 1000 - start if within is None else start + 1
        self.spans.append(
            SpanRecord(
                span_id=f"{start}",
                parent_id=parent,
                name=name,
                scope=self.scope,
                attributes=written,
                started_at=start,
                ended_at=ends,
                **more,
            )
        )
        return start - 1

    def read(self) -> Trace:
        return read_trace("t", self.spans)


def failed(error: str | None) -> dict[str, Any]:
    return {"status": STATUS_ERROR, "status_message": error} if error else {}


def genkit(error: str | None) -> Trace:
    """Record a flow of Genkit 1.42."""

    def of(kind: str, name: str, given: Any, returned: Any) -> dict[str, Any]:
        return {
            "genkit:type": "action",
            "genkit:metadata:subtype": kind,
            "genkit:name": name,
            "genkit:input": json.dumps(given),
            "genkit:output": json.dumps(returned),
        }

    asked = [
        {"role": "system", "content": [{"text": "Be brief."}]},
        {"role": "user", "content": [{"text": QUESTION}]},
    ]
    request = {"toolRequest": {"name": TOOL, "ref": "c1", "input": ARGUMENTS}}
    result = {"toolResponse": {"name": TOOL, "ref": "c1", "output": error or RESULT}}
    usage = {"inputTokens": 45, "outputTokens": 12}
    made = Recorder("genkit-tracer")
    flow = made.add("travelFlow", of("flow", "travelFlow", QUESTION, ANSWER))
    util = {"genkit:type": "util", "genkit:name": "generate", "genkit:input": {"messages": asked}}
    generate = made.add("generate", util, within=flow)
    tools = [{"name": TOOL, "inputSchema": {"type": "object"}}]
    first = {"message": {"role": "model", "content": [request]}, "finishReason": "stop", "usage": usage}
    made.add("m", of("model", "oai/gpt-4o", {"messages": asked, "tools": tools}, first), within=generate)
    made.add(TOOL, of("tool", TOOL, ARGUMENTS, None if error else RESULT), within=generate, **failed(error))
    sent = [*asked, {"role": "model", "content": [request]}, {"role": "tool", "content": [result]}]
    last = {"message": {"role": "model", "content": [{"text": ANSWER}]}, "finishReason": "stop", "usage": usage}
    made.add("m", of("model", "oai/gpt-4o", {"messages": sent, "tools": tools}, last), within=generate)
    return made.read()


def haystack(error: str | None) -> Trace:
    """Record an agent of Haystack 3."""

    def message(role: str, content: dict[str, Any]) -> dict[str, Any]:
        meta = {"model": "gpt-4o", "usage": {"prompt_tokens": 45, "completion_tokens": 12}}
        return {"role": role, "meta": meta if role == "assistant" else {}, "name": None, "content": [content]}

    asked = [message("system", {"text": "Be brief."}), message("user", {"text": QUESTION})]
    call = {"tool_name": TOOL, "arguments": ARGUMENTS, "id": "c1"}
    request = message("assistant", {"tool_call": call})
    result = {"result": error or RESULT, "origin": call, "error": bool(error)}
    answer = message("assistant", {"text": ANSWER})
    tools = [{"type": "haystack.tools.tool.Tool", "data": {"name": TOOL, "function": "app.get_weather"}}]
    llm, tool = "haystack.agent.step.llm", "haystack.agent.step.tool"
    made = Recorder()
    run = made.add(
        "haystack.agent.run",
        {
            "haystack.agent.input": {"messages": asked[1:], "streaming_callback": None},
            "haystack.agent.output": {"messages": [*asked, request, answer], "last_message": answer},
        },
    )
    step = made.add("haystack.agent.step", {"haystack.agent.step": 0}, within=run)
    made.add(
        llm, {f"{llm}.input": {"messages": asked, "tools": tools}, f"{llm}.output": {"replies": [request]}}, within=step
    )
    returned = (
        {f"{tool}.output": {"error": error}, "haystack.tool.error": True} if error else {f"{tool}.output": RESULT}
    )
    made.add(tool, {"haystack.tool.name": TOOL, f"{tool}.input": ARGUMENTS, **returned}, within=step)
    sent = [*asked, request, message("tool", {"tool_call_result": result})]
    made.add(
        llm, {f"{llm}.input": {"messages": sent, "tools": tools}, f"{llm}.output": {"replies": [answer]}}, within=step
    )
    return made.read()


def llama_index(error: str | None) -> Trace:
    """Record an agent of LlamaIndex 0.14."""

    def blocks(role: str, *found: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {"role": role, "additional_kwargs": kwargs, "blocks": [*found]}

    def called(sent: list[Any], block: dict[str, Any]) -> tuple[EventRecord, ...]:
        tools = [{"type": "function", "function": {"name": TOOL}}]
        start = {
            "messages": json.dumps(sent),
            "additional_kwargs.tools": json.dumps(tools),
            "model_dict.model_name": "gpt-4o",
        }
        end: dict[str, Any] = {
            "response.message.role": "assistant",
            "response.message.blocks": json.dumps([block]),
            "response.raw.usage.prompt_tokens": 45,
            "response.raw.usage.completion_tokens": 12,
        }
        return EventRecord(name="LLMChatStartEvent", attributes=start), EventRecord(
            name="LLMChatEndEvent", attributes=end
        )

    text = {"block_type": "text", "text": QUESTION}
    request = {"block_type": "tool_call", "tool_call_id": "c1", "tool_name": TOOL, "tool_kwargs": json.dumps(ARGUMENTS)}
    asked = [blocks("system", {"block_type": "text", "text": "Be brief."}), blocks("user", text)]
    summary = "llamaindex.step.input_summary"
    call = {summary: f"ToolCall(tool_name='{TOOL}', tool_kwargs={ARGUMENTS!r}, tool_id='c1')"}
    made = Recorder("llamaindex.opentelemetry.tracer")
    run = made.add("FunctionAgent.run", {})
    made.add("BaseWorkflowAgent.setup_agent", {summary: "AgentInput(input=[], current_agent_name='clerk')"}, within=run)
    made.add("OpenAI.achat", {}, within=run, events=called(asked, request))
    step = made.add("BaseWorkflowAgent.call_tool", call, within=run)
    made.add("FunctionTool.acall", call, within=step, **failed(error))
    told = blocks("tool", {"block_type": "text", "text": error or RESULT}, tool_call_id="c1")
    made.add(
        "OpenAI.achat",
        {},
        within=run,
        events=called([*asked, blocks("assistant", request), told], {"block_type": "text", "text": ANSWER}),
    )
    return made.read()


def mastra(error: str | None) -> Trace:
    """Record an agent of Mastra's exporter 1.4."""

    def chat(text: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "chat",
            "mastra.span.type": "model_inference",
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": text}]}],
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 45,
            "gen_ai.usage.output_tokens": 12,
        }

    made = Recorder("@mastra/otel-exporter")
    run = made.add(
        "invoke_agent clerk",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "clerk",
            "mastra.span.type": "agent_run",
            "mastra.agent_run.input": QUESTION,
            "mastra.agent_run.output": {"text": ANSWER, "files": []},
            "mastra.metadata.sessionId": "s-7",
            "mastra.metadata.userId": "u-1",
        },
    )
    made.add("chat gpt-4o", chat(""), within=run)
    tool = {"gen_ai.operation.name": "execute_tool", "mastra.span.type": "tool_call", "gen_ai.tool.name": TOOL}
    result = {} if error else {"gen_ai.tool.call.result": RESULT}
    made.add("t", {**tool, "gen_ai.tool.call.arguments": ARGUMENTS, **result}, within=run, **failed(error))
    made.add("chat gpt-4o", chat(ANSWER), within=run)
    return made.read()


def langsmith(error: str | None) -> Trace:
    """Record an agent of LangChain 1.5 by LangSmith's exporter."""

    def of(kind: str, operation: str, given: Any, returned: Any) -> dict[str, Any]:
        return {
            "langsmith.span.kind": kind,
            "gen_ai.operation.name": operation,
            "langsmith.metadata.lc_agent_name": "clerk",
            "gen_ai.prompt": json.dumps(given),
            "gen_ai.completion": json.dumps(returned),
        }

    def made_of(kind: str, **fields: Any) -> dict[str, Any]:
        return {"lc": 1, "type": "constructor", "id": ["langchain"], "kwargs": {"type": kind, **fields}}

    def chat(sent: list[Any], reply: Any) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": TOOL}}]
        tokens = {"gen_ai.usage.input_tokens": 45, "gen_ai.usage.output_tokens": 12}
        given = {"gen_ai.request.model": "gpt-4o", "gen_ai.tool.definitions": tools}
        return {**of("llm", "chat", {"messages": [sent]}, {"generations": [[{"message": reply}]]}), **tokens, **given}

    asked = [made_of("system", content="Be brief."), made_of("human", content=QUESTION)]
    request = made_of("ai", content="", tool_calls=[{"name": TOOL, "args": ARGUMENTS, "id": "c1"}])
    result = {"type": "tool", "content": RESULT, "tool_call_id": "c1", "status": "success"}
    turn = [{"type": "human", "content": QUESTION}, {"type": "ai", "content": ANSWER}]
    made = Recorder("langsmith")
    question = {"messages": [{"role": "user", "content": QUESTION}]}
    run = made.add("clerk", of("chain", "chain", question, {"messages": turn}))
    made.add("ChatOpenAI", chat(asked, request), within=run)
    tool = of("tool", "execute_tool", ARGUMENTS, {} if error else {"output": result})
    made.add(TOOL, {**tool, "gen_ai.tool.name": TOOL, "gen_ai.tool.call.id": "c1"}, within=run, **failed(error))
    told = made_of("tool", content=error or RESULT, tool_call_id="c1")
    made.add("ChatOpenAI", chat([*asked, request, told], made_of("ai", content=ANSWER)), within=run)
    return made.read()


FRAMEWORKS = (langsmith, genkit, haystack, llama_index, mastra)


@pytest.mark.parametrize("record", FRAMEWORKS, ids=lambda record: record.__name__)
def test_a_frameworks_own_spans_tell_a_turn_like_any_other(record: Any) -> None:
    trace = record(None)
    [turn] = trace.turns
    assert (turn.input, turn.output, turn.error) == (QUESTION, ANSWER, None)
    assert [(call.name, call.arguments, call.result, call.error) for call in turn.tool_calls] == [
        (TOOL, ARGUMENTS, RESULT, None)
    ]
    assert [tool.name for tool in trace.available_tools] == [TOOL]
    assert (trace.partial, trace.unread) == (False, {})


@pytest.mark.parametrize("record", FRAMEWORKS, ids=lambda record: record.__name__)
def test_a_frameworks_own_spans_count_each_model_call_once(record: Any) -> None:
    [turn] = record(None).turns
    assert [(call.model, call.usage) for call in turn.model_calls] == [
        ("gpt-4o", Usage(input_tokens=45, output_tokens=12))
    ] * 2


@pytest.mark.parametrize("record", FRAMEWORKS, ids=lambda record: record.__name__)
def test_a_frameworks_own_spans_tell_that_a_tool_failed(record: Any) -> None:
    [turn] = record(ERROR).turns
    assert [(call.name, call.error) for call in turn.tool_calls] == [(TOOL, ERROR)]


def test_mastra_names_session_and_user_in_its_metadata() -> None:
    trace = mastra(None)
    assert (trace.session_id, trace.user_id, trace.agents) == ("s-7", "u-1", ("clerk",))


def test_llama_index_names_the_agent_in_the_steps_of_its_run() -> None:
    assert llama_index(None).agents == ("clerk",)


def test_claude_code_counts_cached_tokens_beside_its_input() -> None:
    made = Recorder("com.anthropic.claude_code.tracing")
    session = {"session.id": "s-7"}
    run = made.add("claude_code.interaction", {**session, "span.type": "interaction", "user_prompt": QUESTION})
    tokens = {"input_tokens": 2, "output_tokens": 12, "cache_read_tokens": 80, "cache_creation_tokens": 18}
    made.add(
        "claude_code.llm_request",
        {**session, "span.type": "llm_request", "model": "claude-opus-5", "stop_reason": "tool_use", **tokens},
        within=run,
    )
    made.add("claude_code.tool", {**session, "span.type": "tool", "tool_name": "Bash", "tool_use_id": "c1"}, within=run)
    trace = made.read()
    [turn] = trace.turns
    assert (trace.session_id, trace.agents, turn.input, turn.output) == ("s-7", ("claude-code",), QUESTION, None)
    assert [(call.name, call.call_id) for call in turn.tool_calls] == [("Bash", "c1")]
    assert [(call.model, call.usage, call.finish_reason) for call in turn.model_calls] == [
        (
            "claude-opus-5",
            Usage(input_tokens=100, output_tokens=12, cache_read_tokens=80, cache_write_tokens=18),
            "tool_use",
        )
    ]


def test_words_that_claude_code_keeps_back_are_not_recorded() -> None:
    made = Recorder()
    made.add("claude_code.interaction", {"span.type": "interaction", "user_prompt": "<REDACTED>"})
    assert [turn.input for turn in made.read().turns] == [None]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(
            "RuntimeError('down')Traceback (most recent call last):\n  File", "RuntimeError('down')", id="before"
        ),
        pytest.param(
            "Traceback (most recent call last):\n  File x\nRuntimeError: down\n", "RuntimeError: down", id="after"
        ),
        pytest.param(
            "exit 1\nOutput: Traceback (most recent call last):\n  File x\nRuntimeError: down\n",
            "exit 1\nOutput: RuntimeError: down",
            id="words that only lead to it",
        ),
        pytest.param("the page has no Traceback", "the page has no Traceback", id="none in it"),
    ],
)
def test_an_error_is_told_without_its_traceback(message: str, words: str) -> None:
    made = Recorder()
    made.add("claude_code.interaction", {"user_prompt": QUESTION}, **failed(message))
    assert [turn.error for turn in made.read().turns] == [words]


def test_codex_tells_turns_and_the_tokens_of_responses() -> None:
    made = Recorder()
    turn = made.add("session_task.turn", {"turn.id": "7", "model": "gpt-5-codex"})
    made.add("submission_dispatch", {"conversation.id": "s-7"}, within=turn)
    usage = {
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 80,
    }
    made.add("handle_responses", usage, within=turn)
    trace = made.read()
    assert (trace.session_id, trace.agents) == ("s-7", ("codex",))
    assert [call.usage for each in trace.turns for call in each.model_calls] == [
        Usage(input_tokens=100, output_tokens=5, cache_read_tokens=80)
    ]


@pytest.mark.parametrize(("operation", "kind"), [("llm_call", "model"), ("tool_call", "tool"), ("agent_call", "agent")])
def test_gemini_cli_has_operations_of_its_own(operation: str, kind: str) -> None:
    made = Recorder("gemini-cli")
    named = {"gen_ai.tool.name": TOOL} if kind == "tool" else {}
    made.add(operation, {"gen_ai.operation.name": operation, "gen_ai.agent.name": "gemini-cli", **named})
    [turn] = made.read().turns
    assert [len(turn.model_calls), len(turn.tool_calls)] == [kind == "model", kind == "tool"]


def opencode(*asked: tuple[str, str]) -> Trace:
    """Record runs of opencode 1.18: each with its system instructions and its answer, of the same question."""
    made = Recorder("opencode")
    loop = made.add("SessionPrompt.loop", {})
    for system, text in asked:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": QUESTION}]
        run = made.add(
            "ai.streamText",
            {
                "ai.operationId": "ai.streamText",
                "ai.telemetry.functionId": "session.llm",
                "ai.prompt": json.dumps({"messages": messages}),
                "ai.response.text": text,
            },
            within=loop,
        )
        called = {"ai.prompt.messages": json.dumps(messages), "ai.response.text": text, "ai.model.id": "gpt-4o-mini"}
        made.add("ai.streamText.doStream", {"ai.operationId": "ai.streamText.doStream", **called}, within=run)
    return made.read()


def test_a_call_that_writes_the_title_of_a_conversation_is_no_turn() -> None:
    title = ("You are a title generator. You output ONLY a thread title.", "Weather")
    for asked in ((title, ("You are a coding agent.", ANSWER)), (("You are a coding agent.", ANSWER), title)):
        trace = opencode(*asked)
        assert [(turn.input, turn.output, len(turn.model_calls)) for turn in trace.turns] == [(QUESTION, ANSWER, 2)]
    assert [turn.output for turn in opencode(title).turns] == ["Weather"]


def test_what_fails_inside_a_coding_agent_is_no_failed_turn() -> None:
    made = Recorder("opencode")
    made.add("EffectFlock.tryAcquire", {"path": "lock"}, **failed("NotAcquired"))
    assert made.read().turns == ()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        pytest.param(f"<current_datetime>2026-11-27</current_datetime>\n\n{QUESTION}", QUESTION, id="Copilot CLI"),
        pytest.param(
            f"<system-reminder>\nBe <b>brief</b>.\n</system-reminder>\n{QUESTION}", QUESTION, id="Claude Code"
        ),
        pytest.param(
            f"<user_instructions>x</user_instructions>\n<environment_context>y</environment_context>\n{QUESTION}",
            QUESTION,
            id="several",
        ),
        pytest.param("<system-reminder>x</system-reminder>", "<system-reminder>x</system-reminder>", id="nothing else"),
        pytest.param("<system-reminder>x", "<system-reminder>x", id="no end"),
        pytest.param("<b>Where</b> is it?", "<b>Where</b> is it?", id="the user's own"),
    ],
)
def test_what_a_coding_agent_puts_before_the_words_of_the_user_is_left_out(sent: str, words: str) -> None:
    made = Recorder("github.copilot")
    messages = [{"role": "user", "parts": [{"type": "text", "content": sent}]}]
    made.add("invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": messages})
    assert [turn.input for turn in made.read().turns] == [words]
