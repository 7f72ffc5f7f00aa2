"""An agent that answers, with our processor and a provider of its own."""

import json
from types import TracebackType
from typing import Any, Self

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

import otel_agenteval
from tests.support.agent_spans import running
from tests.support.spans import answer, user


class Agent:
    """Talks to the collector at `address` until the end of a `with`."""

    def __init__(self, address: str, **options: Any) -> None:
        self.processor = otel_agenteval.AgentEvalSpanProcessor(f"http://{address}", shutdown_timeout=2, **options)
        self._provider = TracerProvider(resource=Resource.create({"service.name": "booking"}), shutdown_on_exit=False)
        self._provider.add_span_processor(self.processor)
        self.tracer = self._provider.get_tracer("agent")

    def answer(self, question: str, said: str, *, session_id: str) -> str:
        """Answer in a trace of its own; its id."""
        content = {
            "gen_ai.input.messages": json.dumps([user(question)]),
            "gen_ai.output.messages": json.dumps([answer(said)]),
        }
        with otel_agenteval.session(session_id), running(self.tracer, **content) as root:
            return format_trace_id(root.get_span_context().trace_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.processor.shutdown()
