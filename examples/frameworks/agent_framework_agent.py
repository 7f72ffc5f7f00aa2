"""An agent of Microsoft Agent Framework, which records itself."""

import asyncio

from agent_framework import Agent
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatClient

import otel_agenteval

otel_agenteval.attach()
enable_instrumentation(enable_sensitive_data=True)


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


async def main() -> None:
    agent = Agent(OpenAIChatClient(model="gpt-4o-mini"), name="weather", tools=[get_weather])
    memory = agent.create_session(session_id="weather-1")
    with otel_agenteval.session("weather-1"):
        for question in ("What is the weather in Paris?", "And in Atlantis?"):
            print(await agent.run(question, session=memory))


asyncio.run(main())
