"""A crew of one agent of CrewAI."""

from crewai import Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

import otel_agenteval

otel_agenteval.attach()
CrewAIInstrumentor().instrument()
OpenAIInstrumentor().instrument()


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


agent = Agent(role="weather", goal="Tell the weather", backstory="", llm="openai/gpt-4o-mini", tools=[get_weather])
task = Task(description="{question}", expected_output="One sentence", agent=agent)
crew = Crew(name="weather", agents=[agent], tasks=[task])

with otel_agenteval.session("weather-1"):
    for question in ("What is the weather in Paris?", "And in Atlantis?"):
        print(crew.kickoff({"question": question}))
