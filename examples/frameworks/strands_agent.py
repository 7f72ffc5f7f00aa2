"""An agent of Strands Agents, which records itself."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ValueError("no weather station there")
    return "sunny"


agent = Agent(
    name="weather",
    model=OpenAIModel(model_id="gpt-4o-mini"),
    tools=[get_weather],
    callback_handler=None,  # else it prints every word as it comes
    trace_attributes={"session.id": "weather-1"},
)
for question in ("What is the weather in Paris?", "And in Atlantis?"):
    print(agent(question))
