"""An agent without any framework that loops, and is stopped at its next call.

    python examples/guard_plain.py

A collector is not needed: the loop is found in this process.
"""

import json
import sys
import time

from opentelemetry import trace

import otel_agenteval

MAX_CALLS = 100
"""Without the guard, this is what ends the agent."""

tracer = trace.get_tracer("examples.guard_plain")


def search(query: str) -> str:
    with tracer.start_as_current_span(
        "execute_tool search",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"query": query}),
        },
    ) as span:
        time.sleep(0.02)  # what a search takes
        result = "no results"
        span.set_attribute("gen_ai.tool.call.result", result)
        return result


def ask(question: str) -> int:
    """Search until something is found; how many calls it took."""
    with tracer.start_as_current_span("invoke_agent seeker") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.agent.name", "seeker")
        calls = 0
        while calls < MAX_CALLS and search(question) == "no results":
            calls += 1
        return calls


def main() -> None:
    # One write a line: on_verdict is called on a thread of its own.
    otel_agenteval.attach(on_verdict=lambda verdict: sys.stdout.write(f"verdict: {verdict.reason}\n"))
    with otel_agenteval.session("seeker-1"), otel_agenteval.stop_on_loop():
        try:
            print(f"ended after {ask('the lost city')} calls")
        except otel_agenteval.AgentLoopDetected as stopped:
            sys.stdout.write(f"stopped: {stopped.verdict.kind}\n")


if __name__ == "__main__":
    main()
