"""A tool-calling agent of smolagents."""

import os

from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import OpenAIModel, ToolCallingAgent, tool

import otel_agenteval

otel_agenteval.attach()
SmolagentsInstrumentor().instrument()


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: The name of the city.
    """
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


model = OpenAIModel("gpt-4o-mini", api_base=os.environ.get("OPENAI_BASE_URL"))
agent = ToolCallingAgent(name="weather", tools=[get_weather], model=model, verbosity_level=0)

with otel_agenteval.session("weather-1"):
    for question in ("What is the weather in Paris?", "And in Atlantis?"):
        print(agent.run(question, reset=False))
