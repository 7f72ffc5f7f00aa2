"""An agent without any framework, instrumented by hand with the OpenTelemetry API.

    agenteval collector                                # in one terminal
    agenteval run -- python examples/plain_agent.py    # in another
    agenteval sessions

Nothing here knows of otel-agenteval: `agenteval run` attaches the processor.
"""

import json

from opentelemetry import trace

tracer = trace.get_tracer("examples.plain_agent")


def message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


OPEN = {"weekdays": "from 9 to 17", "Mondays": "closed", "Sundays": "from 11 to 15, admission is free"}


def look_up(day: str) -> str:
    with tracer.start_as_current_span("execute_tool look_up") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "look_up")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"day": day}))
        result = OPEN[day]
        span.set_attribute("gen_ai.tool.call.result", result)
        return result


def ask(session: str, question: str, day: str) -> str:
    with tracer.start_as_current_span("invoke_agent guide") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.agent.name", "guide")
        span.set_attribute("gen_ai.conversation.id", session)
        span.set_attribute("gen_ai.input.messages", message("user", question))
        answer = f"On {day} the city museum is {look_up(day)}."
        span.set_attribute("gen_ai.output.messages", message("assistant", answer))
        return answer


if __name__ == "__main__":
    questions = ("When is the city museum open?", "Is it open on Mondays?", "And on Sundays?")
    for question, day in zip(questions, OPEN, strict=True):
        print(f"> {question}\n{ask('museum-1', question, day)}")
