"""An agent of the OpenAI Agents SDK."""

from agents import Agent, Runner, SQLiteSession, function_tool
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

import otel_agenteval

otel_agenteval.attach()
OpenAIAgentsInstrumentor().instrument()


@function_tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


agent = Agent(name="weather", model="gpt-4o-mini", tools=[get_weather])
memory = SQLiteSession("weather-1")

with otel_agenteval.session("weather-1"):
    for question in ("What is the weather in Paris?", "And in Atlantis?"):
        print(Runner.run_sync(agent, question, session=memory).final_output)
