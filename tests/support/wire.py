"""Spans of what agents do, in the words of three families of instrumentations.

A file of `as_spans.jsonl` has a behaviour in each line: what the agent does, whether that is a loop, and its steps:

    ["says", text]                                       a reply of the model
    ["asks", text]                                       new words of the user, which begin another trace
    ["calls", tool, arguments, result, seconds]          a call, which takes a fifth of a second where nothing is said
    ["fails", tool, arguments, words]                    a call whose span ends in an error
    ["model fails", words]                               a model call that does
    ["waits", seconds]                                   nothing happens
    ["delegates", agent, arguments, steps, answer]       a call inside which another agent works
    ["at once", calls]                                   calls of one reply, side by side
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from otel_agenteval.conventions.spans import span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import steps_of
from otel_agenteval.finding import Finding
from tests.support.watched import Watched

SECOND: Final = 1_000_000_000
Attributes = Mapping[str, Any]
Act = Sequence[Any]
Message = tuple[str, Any]
"""A role, and a text, calls as (name, arguments), or a result."""
PLEASE: Final = "Please do the task."


def written(content: Any) -> str:
    """Text as it is, and everything else as JSON."""
    return content if isinstance(content, str) else json.dumps(content)


class GenAI:
    """The GenAI conventions. Agents hand over by a tool."""

    name = "GenAI"

    def agent(self, name: str) -> tuple[str, Attributes]:
        return f"invoke_agent {name}", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}

    def reply(
        self, text: str | None, calls: Sequence[tuple[str, Any]], before: Sequence[Message] = ()
    ) -> tuple[str, Attributes]:
        said = self._message(("assistant", text if text else calls))
        before = before or [("user", PLEASE)]
        return "chat m", {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps([self._message(each) for each in before]),
            "gen_ai.output.messages": json.dumps([said]),
        }

    def _message(self, message: Message) -> Any:
        role, said = message
        if role == "tool":
            return {"role": role, "parts": [{"type": "tool_call_response", "response": said}]}
        if isinstance(said, str):
            return {"role": role, "parts": [{"type": "text", "content": said}]}
        calls = [{"type": "tool_call", "name": tool, "arguments": arguments} for tool, arguments in said]
        return {"role": role, "parts": calls}

    def tool(self, name: str, arguments: Any, result: Any) -> tuple[str, Attributes]:
        return f"execute_tool {name}", {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            **({} if result is None else {"gen_ai.tool.call.result": written(result)}),
        }

    def handover(self, giver: str, receiver: str) -> tuple[str, Attributes]:
        return self.tool(f"transfer_to_{receiver}", {}, "ok")


class OpenInference:
    """OpenInference, as its instrumentation of the OpenAI Agents SDK writes it."""

    name = "OpenInference"

    def agent(self, name: str) -> tuple[str, Attributes]:
        return name, {"openinference.span.kind": "AGENT", "agent.name": name, "input.value": "Help me"}

    def reply(
        self, text: str | None, calls: Sequence[tuple[str, Any]], before: Sequence[Message] = ()
    ) -> tuple[str, Attributes]:
        said = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
        for number, message in enumerate(before or [("user", PLEASE)]):
            said |= self._message(f"llm.input_messages.{number}.message", message)
        return "response", said | self._message("llm.output_messages.0.message", ("assistant", text if text else calls))

    def _message(self, key: str, message: Message) -> dict[str, str]:
        role, said = message
        written = {f"{key}.role": role}
        if role == "tool" or isinstance(said, str):
            return written | {f"{key}.content": said if isinstance(said, str) else json.dumps(said)}
        for number, (tool, arguments) in enumerate(said):
            call = f"{key}.tool_calls.{number}.tool_call.function"
            written |= {f"{call}.name": tool, f"{call}.arguments": json.dumps(arguments)}
        return written

    def tool(self, name: str, arguments: Any, result: Any) -> tuple[str, Attributes]:
        said = {"openinference.span.kind": "TOOL", "tool.name": name}
        told = {} if result is None else {"output.value": written(result)}
        return name, said | {"input.value": json.dumps(arguments)} | told

    def handover(self, giver: str, receiver: str) -> tuple[str, Attributes]:
        said = {"openinference.span.kind": "TOOL", "input.value": giver, "output.value": receiver}
        return f"handoff to {receiver}", said


class OpenAIAgents(GenAI):
    """The official instrumentation of the OpenAI Agents SDK, which has a span for each hand-over."""

    name = "OpenAI Agents"

    def handover(self, giver: str, receiver: str) -> tuple[str, Attributes]:
        return f"agent_handoff {giver}", {
            "gen_ai.operation.name": "agent_handoff",
            "gen_ai.agent.name": "OpenAI Agent",
            "gen_ai.handoff.from_agent": giver,
            "gen_ai.handoff.to_agent": receiver,
        }


DIALECTS: Final = (GenAI(), OpenInference(), OpenAIAgents())
CONTENT: Final = ("messages", "arguments", "result", "value", "content")
"""Ends of the names of attributes that hold content."""


class Stage:
    """Plays what agents do."""

    def __init__(self, dialect: GenAI | OpenInference, *, content: bool = True) -> None:
        self._dialect = dialect
        self._content = content
        self._now = SECOND
        self.watched = Watched()

    def play(self, runs: Sequence[tuple[str, Sequence[Act]]]) -> None:
        """Play the runs of agents in one trace, one after the other. `("hands over", agent, words)` is an act, too."""
        with self._span(self._dialect.agent("team")):
            for agent, acts in runs:
                with self._span(self._dialect.agent(agent)):
                    self._do(agent, acts, [])

    def converse(self, steps: Sequence[Act], asked: str = PLEASE) -> None:
        """Play the steps of one agent, a trace for each of the user's messages."""
        before: list[Message] = []
        parts: list[tuple[str, list[Act]]] = [(asked, [])]
        for step in steps:
            if step[0] == "asks":
                parts.append((step[1], []))
            else:
                parts[-1][1].append(step)
        for question, acts in parts:
            before.append(("user", question))
            with self._span(self._dialect.agent("worker")):
                self._do("worker", acts, before)

    def _do(self, agent: str, acts: Sequence[Act], before: list[Message]) -> None:
        for act in acts:
            self._act(agent, before, *act)

    def _act(self, agent: str, before: list[Message], does: str, *what: Any) -> None:
        if does == "says":
            self._replies(what[0], [], before)
        elif does == "waits":
            self._now += int(what[0] * SECOND)
        elif does == "model fails":
            self._leaf(self._dialect.reply(None, [], before), failed=what[0])
        elif does == "hands over":
            [receiver, *said] = what
            self._replies(said[0] if said else None, [(f"transfer_to_{receiver}", {})], before)
            self._leaf(self._dialect.handover(agent, receiver))
        elif does == "at once":
            self._at_once(what[0], before)
        elif does == "delegates":
            self._delegates(before, *what)
        else:
            self._call(before, does, *what)

    def _replies(self, text: str | None, calls: Sequence[tuple[str, Any]], before: list[Message]) -> None:
        self._leaf(self._dialect.reply(text, calls, before))
        before.append(("assistant", text if text else calls))

    def _call(
        self, before: list[Message], does: str, tool: str, arguments: Any, result: Any, seconds: float = 0.2
    ) -> None:
        self._replies(None, [(tool, arguments)], before)
        failed = result if does == "fails" else None
        self._leaf(self._dialect.tool(tool, arguments, None if failed else result), seconds=seconds, failed=failed)
        before.append(("tool", result))

    def _at_once(self, calls: Sequence[Act], before: list[Message]) -> None:
        self._replies(None, [(tool, arguments) for _, tool, arguments, _ in calls], before)
        started_at = self._now
        for _, tool, arguments, result in calls:
            self._now = started_at
            self._leaf(self._dialect.tool(tool, arguments, result))
            before.append(("tool", result))

    def _delegates(self, before: list[Message], agent: str, arguments: Any, acts: Sequence[Act], answer: str) -> None:
        self._replies(None, [(agent, arguments)], before)
        with self._span(self._dialect.tool(agent, arguments, answer)), self._span(self._dialect.agent(agent)):
            inside: list[Message] = [("user", json.dumps(arguments))]
            self._do(agent, [*acts, ("says", answer)], inside)
        before.append(("tool", answer))

    def _leaf(self, said: tuple[str, Attributes], *, seconds: float = 0.2, failed: str | None = None) -> None:
        with self._span(said, failed):
            self._now += int(seconds * SECOND)

    @contextmanager
    def _span(self, said: tuple[str, Attributes], failed: str | None = None) -> Iterator[None]:
        name, attributes = said
        if not self._content:
            attributes = {key: value for key, value in attributes.items() if not key.endswith(CONTENT)}
        span = self.watched.tracer.start_span(name, attributes=dict(attributes), start_time=self._now)
        self._now += 1
        with trace.use_span(span):
            yield
        if failed is not None:
            span.set_status(trace.Status(trace.StatusCode.ERROR, failed))
        span.end(self._now)
        self._now += 1

    @property
    def spans(self) -> list[ReadableSpan]:
        return [ended.span for ended in self.watched.ended]

    def told_in_the_agent(self) -> list[Finding]:
        """What our processor finds."""
        return self.watched.found

    def told_when_complete(self) -> list[Finding]:
        """What the collector finds in the complete traces."""
        records = [span_record(span, {}, "agent") for span in self._encoded()]
        found: list[Finding] = []
        for trace_id in dict.fromkeys(record.trace_id for record in records):
            read = read_trace(str(trace_id), [record for record in records if record.trace_id == trace_id])
            detectors = Detectors("s", read.trace_id, RuleBook())
            found += [each for step in steps_of(read) for each in detectors.observe(step)]
        return found

    def _encoded(self) -> list[Any]:
        request = encode_spans(self.spans)
        return [
            span for of_resource in request.resource_spans for scope in of_resource.scope_spans for span in scope.spans
        ]
