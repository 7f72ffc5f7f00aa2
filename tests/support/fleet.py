"""Agents that answer, fail, loop and get worse on request, with our processor and real spans."""

import json
from types import TracebackType
from typing import Self

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode

import otel_agenteval
from tests.support.agent_spans import ask, running

MODEL = "costly"
DOLLARS_A_TOKEN = 0.01


class Agent:
    """One version of an agent in a service of the same name. A context manager: the collector has its spans then."""

    def __init__(self, endpoint: str, name: str, version: str = "1") -> None:
        self.name = name
        self._provider = TracerProvider(resource=Resource({"service.name": name, "service.version": version}))
        self._provider.add_span_processor(otel_agenteval.AgentEvalSpanProcessor(endpoint=endpoint))
        self._tracer = self._provider.get_tracer("fleet")
        self._version = version
        self._sessions = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provider.force_flush(10_000)
        self._provider.shutdown()

    def work(
        self,
        sessions: int,
        *,
        failing: int = 0,
        failing_tools: int = 0,
        answer: str = "Here it is.",
        dollars: float = 0.0,
    ) -> list[str]:
        """Have so many sessions of one turn; return their ids. So many fail, in between the others; the first ones
        have a tool that fails. Each costs `dollars`."""
        ids = [f"{self.name}-{self._version}-{self._sessions + number}" for number in range(sessions)]
        self._sessions += sessions
        for number, session_id in enumerate(ids):
            fails = (number + 1) * failing // sessions > number * failing // sessions
            with otel_agenteval.session(session_id), running(self._tracer, self.name) as run:
                asked = [{"role": "user", "parts": [{"type": "text", "content": f"Where is parcel {number}?"}]}]
                run.set_attribute("gen_ai.input.messages", json.dumps(asked))
                if number < failing_tools:
                    self._failing_tool()
                if fails:
                    run.set_status(Status(StatusCode.ERROR, "the carrier refused the connection"))
                    continue
                ask(self._tracer, answer, MODEL, tokens=round(dollars / DOLLARS_A_TOKEN))
                said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
                run.set_attribute("gen_ai.output.messages", json.dumps(said))
        return ids

    def _failing_tool(self) -> None:
        named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "track"}
        with self._tracer.start_as_current_span("execute_tool track", attributes=named) as span:
            span.set_status(Status(StatusCode.ERROR, "no answer of the carrier"))

    def flush(self) -> None:
        """Return when the collector has every span."""
        self._provider.force_flush(10_000)

    def hang(self) -> "Hanging":
        """Begin a turn that does not end before the block does; what it has done so far has arrived."""
        return Hanging(self._provider, self.name)


class Hanging:
    """A turn that takes as long as a block."""

    def __init__(self, provider: TracerProvider, name: str) -> None:
        self._provider, self._name = provider, name

    def __enter__(self) -> Self:
        tracer = self._provider.get_tracer("fleet")
        self._run = running(tracer, self._name)
        self._run.__enter__()
        ask(tracer, "Let me see.", MODEL)
        self._provider.force_flush(10_000)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run.__exit__(kind, error, trace)
        self._provider.force_flush(10_000)
