"""An agent of LangChain, whose thread is the session."""

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor

import otel_agenteval

otel_agenteval.attach()
LangChainInstrumentor().instrument()


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


@wrap_tool_call
def tell_the_model(request, handler):
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


setup = {"name": "weather", "middleware": [tell_the_model], "checkpointer": InMemorySaver()}
agent = create_agent("openai:gpt-4o-mini", [get_weather], **setup)

thread = {"configurable": {"thread_id": "weather-1"}}
for question in ("What is the weather in Paris?", "And in Atlantis?"):
    result = agent.invoke({"messages": [("user", question)]}, thread)
    print(result["messages"][-1].content)
