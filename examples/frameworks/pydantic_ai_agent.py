"""An agent of Pydantic AI, which records itself."""

from pydantic_ai import Agent, ModelRetry

Agent.instrument_all()
agent = Agent("openai-chat:gpt-4o-mini", name="weather")


@agent.tool_plain
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    if city == "Atlantis":
        raise ModelRetry("no weather station there")
    return "sunny"


history = []
for question in ("What is the weather in Paris?", "And in Atlantis?"):
    result = agent.run_sync(question, message_history=history, conversation_id="weather-1")
    history = result.all_messages()
    print(result.output)
