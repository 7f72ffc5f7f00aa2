"""What an instrumented agent does, a line a call, on a real tracer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import Span, Tracer


@contextmanager
def running(tracer: Tracer, agent: str = "guide", **attributes: Any) -> Iterator[Span]:
    """A run of an agent."""
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent, **attributes}
    with tracer.start_as_current_span(f"invoke_agent {agent}", attributes=named) as span:
        yield span


def call(tracer: Tracer, name: str = "look_up", arguments: Any = "museum", result: Any = "no rows") -> int:
    """A call of a tool from start to end; the id of its span."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps({"query": arguments}),
    }
    with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
        span.set_attribute("gen_ai.tool.call.result", json.dumps(result))
        return span.get_span_context().span_id


def ask(tracer: Tracer, answer: str, model: str = "small", tokens: int = 10) -> None:
    """A model call that answers in words."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
    with tracer.start_as_current_span(f"chat {model}", attributes=attributes) as span:
        said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
        span.set_attribute("gen_ai.output.messages", json.dumps(said))
        span.set_attribute("gen_ai.usage.output_tokens", tokens)
