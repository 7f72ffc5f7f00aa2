"""An agent of LlamaIndex."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import Memory
from llama_index.llms.openai import OpenAI
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

import otel_agenteval

otel_agenteval.attach()
LlamaIndexInstrumentor().instrument()


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


async def main() -> None:
    model = OpenAI("gpt-4o-mini", api_base=os.environ.get("OPENAI_BASE_URL"))
    agent = FunctionAgent(name="weather", tools=[get_weather], llm=model)
    memory = Memory.from_defaults(session_id="weather-1")
    with otel_agenteval.session("weather-1"):
        for question in ("What is the weather in Paris?", "And in Atlantis?"):
            print(await agent.run(question, memory=memory))


asyncio.run(main())
