"""A graph of LangGraph, whose thread is the session."""

from langchain.chat_models import init_chat_model
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor

import otel_agenteval

otel_agenteval.attach()
LangChainInstrumentor().instrument()


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


def call_model(state: MessagesState) -> dict:
    return {"messages": [model.invoke(state["messages"])]}


model = init_chat_model("openai:gpt-4o-mini").bind_tools([get_weather])
graph = StateGraph(MessagesState).add_node("model", call_model)
graph.add_node("tools", ToolNode([get_weather], handle_tool_errors=True))
graph.add_edge(START, "model").add_edge("tools", "model").add_conditional_edges("model", tools_condition)
agent = graph.compile(checkpointer=InMemorySaver(), name="weather")

thread = {"configurable": {"thread_id": "weather-1"}}
for question in ("What is the weather in Paris?", "And in Atlantis?"):
    result = agent.invoke({"messages": [("user", question)]}, thread)
    print(result["messages"][-1].content)
