"""Checks of what has arrived of each service: whether it is GenAI telemetry, with content and with ids of sessions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_agenteval.doctor.checks import Check, error, ok, warning


def about_arrivals(services: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Check the items of `/api/v1/arrivals`."""
    if not services:
        yield error(
            "spans",
            "no span has arrived",
            "start the agent as `agenteval run -- python your_agent.py`, or call otel_agenteval.attach() in it, "
            "after its own tracing is set up",
        )
    for service in services:
        yield from _about_service(service["service"] or "a service without a name", service)


def _about_service(name: str, item: Mapping[str, Any]) -> Iterator[Check]:
    """Check one service. Traces that still run are not judged by what has not come yet."""
    traces = f"{item['traces']} newest traces" if item["traces"] > 1 else "1 trace"
    if not item["traces"]:
        yield ok("spans", f"{name}: {item['running']} running, none complete yet")
    elif not item["genai"]:
        yield error(
            "spans",
            f"{name}: {traces}, the last {item['last_seen_at']}, none with GenAI spans",
            "install an instrumentation for its framework (docs/instrumentations.md); where there is one, set it up "
            "before the agent is made",
        )
    else:
        yield ok("spans", f"{name}: GenAI spans in {item['genai']} of {traces}, the last {item['last_seen_at']}")
        yield _about_content(name, item)
        yield _about_sessions(name, item)


def _about_content(name: str, item: Mapping[str, Any]) -> Check:
    found = f"{name}: recorded in {item['with_content']} of {item['genai']}"
    if item["with_content"] == item["genai"]:
        return ok("content", found)
    return warning("content", found, item["content_switch"] or "docs/content.md has the switch of each instrumentation")


def _about_sessions(name: str, item: Mapping[str, Any]) -> Check:
    found = f"{name}: {item['with_session']} of {item['genai']} name their session"
    if item["with_session"]:
        return ok("sessions", found)
    return warning(
        "sessions",
        f"{found}: they are joined by their messages",
        'wrap each conversation in `with otel_agenteval.session("ID"):`, or set gen_ai.conversation.id',
    )
