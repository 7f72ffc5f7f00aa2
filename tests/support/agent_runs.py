"""Agents that run side by side, one after the other and inside each other, on a real tracer; a second passes a line."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import Span, Tracer, set_span_in_context

SECOND = 1_000_000_000
Message = tuple[str, str]


class Stage:
    """Spans with the times of a clock that every start and end moves on."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._now = SECOND

    def begin(self, name: str, parent: Span | None, **attributes: Any) -> Span:
        """A span of any kind; double underscores are dots."""
        self._now += SECOND
        said = {key.replace("__", "."): value for key, value in attributes.items()}
        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, attributes=said, start_time=self._now)

    def end(self, span: Span) -> None:
        """The span is over."""
        self._now += SECOND
        span.end(self._now)

    @contextmanager
    def inside(self, name: str, parent: Span | None, **attributes: Any) -> Iterator[Span]:
        """A span around what is done meanwhile."""
        span = self.begin(name, parent, **attributes)
        yield span
        self.end(span)

    def run(self, agent: str | None, parent: Span | None = None) -> Span:
        """The span of an agent's run."""
        named = {} if agent is None else {"gen_ai__agent__name": agent}
        return self.begin(
            f"invoke_agent {agent or ''}".strip(), parent, gen_ai__operation__name="invoke_agent", **named
        )

    @contextmanager
    def running(self, agent: str | None, parent: Span | None = None) -> Iterator[Span]:
        """A run of an agent around what is done meanwhile."""
        span = self.run(agent, parent)
        yield span
        self.end(span)

    def call(self, parent: Span, tool: str = "search", arguments: Any = "refund", result: Any = "3 hits") -> None:
        """A call of a tool."""
        with self.inside(
            f"execute_tool {tool}",
            parent,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=tool,
            gen_ai__tool__call__arguments=json.dumps({"of": arguments} if arguments else {}),
            gen_ai__tool__call__result=json.dumps(result),
        ):
            pass

    def ask(
        self, parent: Span, asked: Sequence[Message] = (), reply: str | None = None, tools: Sequence[Any] = ()
    ) -> None:
        """A model call. It asks for `tools`, calls of `search` with these arguments; without them and a reply, for one
        that is not recorded."""
        said: dict[str, Any] = {}
        if asked:
            said["gen_ai__input__messages"] = messages(asked)
        if reply is not None:
            said["gen_ai__output__messages"] = messages([("assistant", reply)])
        if tools:
            parts = [{"type": "tool_call", "name": "search", "arguments": {"of": each}} for each in tools]
            said["gen_ai__output__messages"] = json.dumps([{"role": "assistant", "parts": parts}])
        with self.inside("chat m", parent, gen_ai__operation__name="chat", gen_ai__request__model="m", **said):
            pass


def messages(said: Sequence[Message]) -> str:
    """Message JSON."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said])
