"""The plain OpenAI client: a span around each turn makes it an agent."""

import json

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

import otel_agenteval

otel_agenteval.attach()
OpenAIInstrumentor().instrument()
client, tracer = OpenAI(), trace.get_tracer("weather")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}


def get_weather(city: str) -> str:
    return "Error: no weather station there" if city == "Atlantis" else "sunny"


def ask(messages: list) -> str:
    """Call the model, and the tools it asks for, until it answers."""
    while True:
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
        reply = completion.choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return reply.content
        for call in reply.tool_calls:
            result = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


history = []
for question in ("What is the weather in Paris?", "And in Atlantis?"):
    with otel_agenteval.session("weather-1"), tracer.start_as_current_span("invoke_agent", attributes=AGENT):
        history.append({"role": "user", "content": question})
        print(ask(history))
