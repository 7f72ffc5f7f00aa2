"""A LangGraph agent that loops, and is stopped at its next tool call.

    pip install langgraph
    python examples/guard_langgraph.py

Instrumentations of LangGraph make their spans in callbacks, whose errors LangChain swallows, and a ToolNode tells the
model of what a tool raises. So the tools ask themselves, by `raise_if_looping`: AgentLoopDetected is no Exception, and
passes both. The model is scripted, and the spans are made by hand, so that this runs without a key.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import wraps

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from opentelemetry import trace

import otel_agenteval

tracer = trace.get_tracer("examples.guard_langgraph")


def stops_on_loop(function: Callable[..., str]) -> Callable[..., str]:
    """Put below `@tool`: the tool is not called once its session is known to loop."""

    @wraps(function)
    def guarded(**arguments: object) -> str:
        otel_agenteval.raise_if_looping()
        return function(**arguments)

    return guarded


@tool
@stops_on_loop
def search(query: str) -> str:
    """Search the archive."""
    with tracer.start_as_current_span("execute_tool search") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "search")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"query": query}))
        time.sleep(0.02)  # what a search takes
        span.set_attribute("gen_ai.tool.call.result", "no results")
        return "no results"


def model(state: MessagesState) -> dict[str, list[AIMessage]]:
    """A model that always asks for the same."""
    call = {"name": "search", "args": {"query": "the lost city"}, "id": f"call-{len(state['messages'])}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def ask(question: str) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([search], handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "seeker"}
    with tracer.start_as_current_span("invoke_agent seeker", attributes=named):
        graph.compile().invoke({"messages": [("user", question)]}, {"recursion_limit": 200})


def main() -> None:
    # One write a line: on_verdict is called on a thread of its own.
    otel_agenteval.attach(on_verdict=lambda verdict: sys.stdout.write(f"verdict: {verdict.reason}\n"))
    with otel_agenteval.session("seeker-2"):
        try:
            ask("Where is the lost city?")
        except otel_agenteval.AgentLoopDetected as stopped:
            sys.stdout.write(f"stopped: {stopped.verdict.kind}\n")


if __name__ == "__main__":
    main()
