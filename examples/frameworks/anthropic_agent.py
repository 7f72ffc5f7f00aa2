"""The plain Anthropic client: a span around each turn makes it an agent."""

from anthropic import Anthropic
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry import trace

import otel_agenteval

otel_agenteval.attach()
AnthropicInstrumentor().instrument()
client, tracer = Anthropic(), trace.get_tracer("weather")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "input_schema": SCHEMA}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}
ASKED = {"model": "claude-sonnet-4-5", "max_tokens": 500, "tools": [TOOL]}


def get_weather(city: str) -> dict:
    return {"content": "no weather station there", "is_error": True} if city == "Atlantis" else {"content": "sunny"}


def ask(messages: list) -> str:
    """Call the model, and the tools it asks for, until it answers."""
    while True:
        reply = client.messages.create(messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return reply.content[0].text
        results = [{"type": "tool_result", "tool_use_id": call.id, **get_weather(**call.input)} for call in calls]
        messages.append({"role": "user", "content": results})


history = []
for question in ("What is the weather in Paris?", "And in Atlantis?"):
    with otel_agenteval.session("weather-1"), tracer.start_as_current_span("invoke_agent", attributes=AGENT):
        history.append({"role": "user", "content": question})
        print(ask(history))
