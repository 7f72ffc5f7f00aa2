"""Checks of the collector over its web port: its readiness, its version, its judge, and the arrived telemetry.

For each service that has sent telemetry, the checks look for GenAI spans, content and ids of sessions.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypedDict, cast
from urllib.parse import urlsplit

from otel_agenteval.doctor.checks import Check, error, ok, warning
from otel_agenteval.doctor.web import NoWebAnswer, Web

_NO_KEY: Final = 401
_NO_SCOPE: Final = 403
_OTLP_HTTP_PORT: Final = 4318
_WRONG_PORT: Final = "4317 is OTLP/gRPC, 4318 OTLP/HTTP: give the web port, 4319"


class JudgeAnswer(TypedDict):
    """The judge of a collector."""

    model: str
    trouble: str | None


class CollectorAnswer(TypedDict):
    """The answer of `/api/v1/collector`. `judge` is None if no judge is configured."""

    version: str
    python: str
    opentelemetry: str
    judge: JudgeAnswer | None


class QuarantineAnswer(TypedDict):
    """One item in the answer of `/api/v1/quarantine`."""

    id: str
    since: str
    bytes: int | None
    reason: str


class UnknownSpansAnswer(TypedDict):
    """Spans of one scope that the collector does not understand."""

    scope: str
    spans: int
    looks_like: list[str]


class ArrivalAnswer(TypedDict):
    """One service in the answer of `/api/v1/arrivals`."""

    service: str | None
    last_seen_at: str | None
    traces: int
    genai: int
    with_content: int
    with_session: int
    running: int
    content_switch: str | None
    not_understood: list[UnknownSpansAnswer]


def about_collector(web: Web, client: str, *, asks_judge: bool) -> Iterator[Check]:
    """Check the collector behind the web port, and the telemetry that has arrived there.

    `client` is the version of this package. With `asks_judge`, the collector also tests whether its judge answers.
    """
    try:
        status, health = web.get("/healthz")
        if status != 200 or not isinstance(health, dict) or health.get("status") != "ok":
            yield error("web", f"{web.url} is not a collector's web port (status {status})", _WRONG_PORT)
            return
        yield _about_readiness(web)
        yield from _about_otlp_http(web)
        status, document = web.get("/api/v1/collector")
        if status == _NO_KEY:
            which = "wants another key" if web.key else "wants a key"
            yield error("key", f"{web.url} {which}", "set AGENTEVAL_API_KEY to one of the collector's keys")
            return
        if status == _NO_SCOPE:
            # No error: an agent's own key need not read.
            fact = f"{_reason(status, document)}, so what has arrived cannot be checked"
            yield warning("key", fact, "to check that as well, give --api-key a key with the scopes read and write")
            return
        if status != 200 or not isinstance(document, dict):
            yield error("version", f"{web.url} is a collector of another release", f"install {client} there as well")
            return
        answer = cast("CollectorAnswer", document)
        yield _about_version(answer, client)
        yield _about_judge(web, answer["judge"], asks=asks_judge)
        _, page = web.get("/api/v1/quarantine")
        yield from about_quarantine((page or {}).get("items") or [])
        _, page = web.get("/api/v1/arrivals")
        yield from about_arrivals((page or {}).get("items") or [])
    except NoWebAnswer as nothing:
        yield error("web", str(nothing), nothing.advice)


def _about_readiness(web: Web) -> Check:
    status, answer = web.get("/readyz")
    if status == 200:
        return ok("web", f"{web.url} is ready")
    return error("web", f"{web.url} is not ready: {_reason(status, answer)}", "the collector's log has more")


def _reason(status: int, answer: Any) -> str:
    """Return what the collector says of an error, or the status if another server has answered."""
    match answer:
        case {"error": {"message": str(message)}}:
            return message
    return f"status {status}"


def _about_otlp_http(web: Web) -> Iterator[Check]:
    """Look for OTLP/HTTP on its usual port, on the host of the web port.

    Yield nothing if it is not there: it may have another port, and only some senders need it.
    """
    address = urlsplit(web.url)
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    url = f"{address.scheme}://{host}:{_OTLP_HTTP_PORT}"
    with suppress(NoWebAnswer):
        # Any status will do, since an answer shows that a server is there.
        Web(url, certificate=web.certificate).get("/v1/traces")
        yield ok("OTLP/HTTP", f"{url} answers")


def _about_version(document: CollectorAnswer, client: str) -> Check:
    theirs = document["version"]
    fact = f"otel-agenteval {theirs}, Python {document['python']}, opentelemetry-sdk {document['opentelemetry']}"
    if theirs == client:
        return ok("collector", fact)
    return warning("collector", f"{fact}; the client here is {client}", "install the same release on both sides")


def _about_judge(web: Web, judge: JudgeAnswer | None, *, asks: bool) -> Check:
    if judge is None:
        advice = "scores that need one are missing: set judge.base_url or judge.api_key (docs/judge.md)"
        return ok("judge", "none is configured", advice)
    trouble = judge["trouble"]
    if asks and not trouble:
        status, answer = web.post("/api/v1/judge/check", {})
        if status == _NO_SCOPE:
            return warning("judge", _reason(status, answer), "give --api-key a key that has the scope label, too")
        trouble = (answer or {}).get("trouble") if status == 200 else f"it cannot be checked (status {status})"
    if trouble:
        advice = "check judge.base_url, judge.api_key and judge.model in the collector's settings"
        return error("judge", f"{judge['model']}: {trouble}", advice)
    return ok("judge", f"{judge['model']}, {'its endpoint answers' if asks else 'no trouble so far'}")


def about_quarantine(items: Sequence[QuarantineAnswer]) -> Iterator[Check]:
    """Name each item of `/api/v1/quarantine`."""
    for item in items:
        size = "" if item["bytes"] is None else f", {item['bytes']} bytes"
        yield warning(
            "quarantine",
            f"{item['id']}{size}, since {item['since']}: {item['reason']}",
            f"when the cause is gone, such as too little memory: `agenteval repair --retry {item['id']}`",
        )


def about_arrivals(services: Sequence[ArrivalAnswer]) -> Iterator[Check]:
    """Check each service among the items of `/api/v1/arrivals`."""
    if not services:
        yield error(
            "spans",
            "no span has arrived",
            "start the agent as `agenteval run -- python your_agent.py`, or call otel_agenteval.attach() in it, "
            "after its own tracing is set up",
        )
    for service in services:
        name = service["service"] or "a service without a name"
        yield from _about_service(name, service)
        for unknown in service.get("not_understood", ()):
            yield _about_unknown_spans(name, unknown)


def _about_service(name: str, item: ArrivalAnswer) -> Iterator[Check]:
    """Check one service. Only complete traces count, since the rest of a running trace may still come."""
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


def _about_unknown_spans(name: str, unknown: UnknownSpansAnswer) -> Check:
    looks_like = ", ".join(unknown["looks_like"])
    return warning(
        "readings",
        f"{name}: {unknown['spans']} spans of scope {unknown['scope'] or 'without a name'} are not understood, with "
        f"attributes that look like {looks_like}",
        "name these attributes in readings.attributes of the collector's settings (docs/settings.md)",
    )


def _about_content(name: str, item: ArrivalAnswer) -> Check:
    fact = f"{name}: recorded in {item['with_content']} of {item['genai']}"
    if item["with_content"] == item["genai"]:
        return ok("content", fact)
    return warning("content", fact, item["content_switch"] or "docs/content.md has the switch of each instrumentation")


def _about_sessions(name: str, item: ArrivalAnswer) -> Check:
    fact = f"{name}: {item['with_session']} of {item['genai']} name their session"
    if item["with_session"]:
        return ok("sessions", fact)
    return warning(
        "sessions",
        f"{fact}: they are joined by their messages",
        'wrap each conversation in `with otel_agenteval.session("ID"):`, or set gen_ai.conversation.id',
    )
