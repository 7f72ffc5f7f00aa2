"""An agent of which a collector has everything to tell: errors, loops, money, runs, two versions."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, Status, StatusCode, Tracer, format_trace_id

import otel_agenteval
from tests.support.agent_spans import running
from tests.support.spans import answer, user

NAME = "clerk"
ENVIRONMENT = "testing"
_MODEL = "gpt-4o-mini"


def work(endpoint: str, version: str, sessions: Iterable[int], key: str | None = None) -> list[tuple[str, str]]:
    """Hold conversations of one trace each, every fourth of which fails; return the ids of session and trace. `key` is
    that of a tenant."""
    resource = Resource.create(
        {"service.name": NAME, "service.version": version, "deployment.environment.name": ENVIRONMENT}
    )
    headers = None if key is None else {"authorization": f"Bearer {key}"}
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(otel_agenteval.AgentEvalSpanProcessor(endpoint, headers=headers))
    tracer = provider.get_tracer("agent")
    held = []
    for number in sessions:
        session, fails = f"{version}-{number}", number % 4 == 0
        run = otel_agenteval.run(task_id=f"refund-{number % 2}", run_id=f"{number // 2}")
        with otel_agenteval.session(session), run as reported:
            held.append((session, _turn(tracer, f"order {version}-{number}", fails=fails)))
            reported.report(success=not fails, confidence=0.4 if fails else 0.9)
    provider.force_flush(10_000)
    provider.shutdown()
    return held


def _turn(tracer: Tracer, order: str, *, fails: bool) -> str:
    # Other words in each session: what was said before, the judge is not asked again.
    asked, said = f"Please refund {order}.", f"I have refunded {order}: 59 EUR."
    content = {"gen_ai.input.messages": json.dumps([user(asked)]), "gen_ai.output.messages": json.dumps([answer(said)])}
    with running(tracer, NAME, **content) as root:
        for number in range(5 if fails else 1):
            with _model_call(tracer, asked) as call:
                call.set_attribute("gen_ai.output.messages", json.dumps([_request(number)]))
            with _operation(tracer, "execute_tool", "refund") as call:
                call.set_attribute("gen_ai.tool.call.arguments", json.dumps({"order": "7731"}))
                call.set_attribute("gen_ai.tool.call.result", "refused" if fails else "refunded")
                if fails:
                    call.set_status(Status(StatusCode.ERROR, "the bank refused"))
        with _model_call(tracer, asked) as call:
            call.set_attribute("gen_ai.output.messages", json.dumps([answer(said)]))
        if fails:
            # What another evaluator says without a score, and a confidence that is no number.
            root.add_event("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "other"})
            root.set_attribute("agenteval.run.confidence", "quite")
            root.set_status(Status(StatusCode.ERROR, "no refund"))
        return format_trace_id(root.get_span_context().trace_id)


def _request(number: int) -> dict[str, Any]:
    call = {"type": "tool_call", "id": f"call-{number}", "name": "refund", "arguments": {"order": "7731"}}
    return {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}


@contextmanager
def _model_call(tracer: Tracer, asked: str) -> Iterator[Span]:
    with _operation(tracer, "chat", _MODEL) as span:
        span.set_attribute("gen_ai.provider.name", "openai")
        span.set_attribute("gen_ai.input.messages", json.dumps([user(asked)]))
        span.set_attribute("gen_ai.usage.input_tokens", 900)
        span.set_attribute("gen_ai.usage.output_tokens", 80)
        yield span


@contextmanager
def _operation(tracer: Tracer, operation: str, what: str) -> Iterator[Span]:
    key = "gen_ai.request.model" if operation == "chat" else "gen_ai.tool.name"
    attributes = {"gen_ai.operation.name": operation, key: what}
    with tracer.start_as_current_span(f"{operation} {what}", attributes=attributes) as span:
        yield span
