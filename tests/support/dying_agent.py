"""An agent that calls one tool, tells so on stdout, and hangs in a model call until it is killed.

usage: python -m tests.support.dying_agent COLLECTOR_ADDRESS TOOL_CALLS
"""

import sys
import threading

import otel_agenteval
from tests.support.agent_spans import call, running
from tests.support.conversing import Agent


def main(address: str, calls: int) -> None:
    agent = Agent(address, live=True)
    with otel_agenteval.session("s-1"), running(agent.tracer):
        for _ in range(calls):
            call(agent.tracer)
        with agent.tracer.start_as_current_span("chat small", attributes={"gen_ai.operation.name": "chat"}) as span:
            agent.processor.force_flush()
            sys.stdout.write(f"{span.get_span_context().trace_id:032x}\n")
            sys.stdout.flush()
            threading.Event().wait(600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
