"""An agent of the OpenAI Agents SDK that loops, and is stopped at its next tool or model call.

    pip install openai-agents
    python examples/guard_openai_agents.py

The SDK has hooks for this; without them it would tell the model of what a tool raises, and go on. The model is
scripted, the spans are made by hand, and the SDK's own uploader of traces is off, so that nothing leaves the machine.
"""

import asyncio
import itertools
import json
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, RunHooks, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall
from opentelemetry import trace

import otel_agenteval

tracer = trace.get_tracer("examples.guard_openai_agents")


class StopOnLoop(RunHooks[Any]):
    """Hooks for `Runner.run`: no tool and no model is called once the session is known to loop."""

    async def on_tool_start(self, *_: Any) -> None:
        otel_agenteval.raise_if_looping()

    async def on_llm_start(self, *_: Any) -> None:
        otel_agenteval.raise_if_looping()


class Stubborn(Model):
    """A model that always asks for the same."""

    def __init__(self) -> None:
        self._ids = itertools.count()

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        call = ResponseFunctionToolCall(
            type="function_call",
            name="search",
            call_id=f"call-{next(self._ids)}",
            arguments=json.dumps({"query": "the lost city"}),
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("this example does not stream")


@function_tool
async def search(query: str) -> str:
    """Search the archive."""
    with tracer.start_as_current_span("execute_tool search") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "search")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"query": query}))
        await asyncio.sleep(0.02)  # what a search takes
        span.set_attribute("gen_ai.tool.call.result", "no results")
        return "no results"


async def ask(question: str) -> None:
    agent = Agent(name="seeker", model=Stubborn(), tools=[search])
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "seeker"}
    with tracer.start_as_current_span("invoke_agent seeker", attributes=named):
        await Runner.run(agent, question, hooks=StopOnLoop(), max_turns=100)


def main() -> None:
    set_tracing_disabled(True)
    # One write a line: on_verdict is called on a thread of its own.
    otel_agenteval.attach(on_verdict=lambda verdict: sys.stdout.write(f"verdict: {verdict.reason}\n"))
    with otel_agenteval.session("seeker-3"):
        try:
            asyncio.run(ask("Where is the lost city?"))
        except otel_agenteval.AgentLoopDetected as stopped:
            sys.stdout.write(f"stopped: {stopped.verdict.kind}\n")


if __name__ == "__main__":
    main()
