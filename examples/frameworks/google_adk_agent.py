"""An agent of Google's Agent Development Kit, which records itself."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part


def get_weather(city: str) -> dict:
    """Tell the weather in a city."""
    if city == "Atlantis":
        return {"status": "error", "error_message": "no weather station there"}
    return {"status": "success", "report": "sunny"}


async def main() -> None:
    agent = LlmAgent(name="weather", model=LiteLlm("openai/gpt-4o-mini"), tools=[get_weather])
    runner = InMemoryRunner(agent, app_name="weather")
    user = {"user_id": "u-7", "session_id": "weather-1"}
    await runner.session_service.create_session(app_name="weather", **user)
    for question in ("What is the weather in Paris?", "And in Atlantis?"):
        asked = Content(role="user", parts=[Part(text=question)])
        async for event in runner.run_async(**user, new_message=asked):
            if event.is_final_response():
                print(event.content.parts[0].text)


asyncio.run(main())
