"""Checks of the collector over its web port: is it ready, which version is it, has it a judge, what has arrived."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from otel_agenteval.doctor.arrivals import about_arrivals
from otel_agenteval.doctor.checks import Check, error, ok, warning
from otel_agenteval.doctor.web import NoAnswer, Web

_NO_KEY: Final = 401
_OTLP_HTTP_PORT: Final = 4318
_WRONG_PORT: Final = "4317 is OTLP/gRPC, 4318 OTLP/HTTP: give the web port, 4319"


def about_collector(web: Web, client: str, *, asks_judge: bool) -> Iterator[Check]:
    """Check the collector behind the web port, and what has arrived there; `client` is the version of this
    package. `asks_judge`: the collector is to find out whether its judge answers."""
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
        if status != 200 or not isinstance(document, dict):
            yield error("version", f"{web.url} is a collector of another release", f"install {client} there as well")
            return
        yield _about_version(document, client)
        yield _about_judge(web, document["judge"], asks=asks_judge)
        _, page = web.get("/api/v1/arrivals")
        yield from about_arrivals((page or {}).get("items") or [])
    except NoAnswer as nothing:
        yield error("web", str(nothing), nothing.advice)


def _about_readiness(web: Web) -> Check:
    status, answer = web.get("/readyz")
    if status == 200:
        return ok("web", f"{web.url} is ready")
    reason = ((answer or {}).get("error") or {}).get("message", f"status {status}")
    return error("web", f"{web.url} is not ready: {reason}", "the collector's log has more")


def _about_otlp_http(web: Web) -> Iterator[Check]:
    """Look for OTLP/HTTP on its usual port beside the web port, and say nothing where it is not there: it may have
    another port, and only some senders need it."""
    parts = urlsplit(web.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    url = f"{parts.scheme}://{host}:{_OTLP_HTTP_PORT}"
    with suppress(NoAnswer):
        Web(url, certificate=web.certificate).get("/v1/traces")
        yield ok("OTLP/HTTP", f"{url} answers")


def _about_version(document: dict[str, Any], client: str) -> Check:
    theirs = document["version"]
    found = f"otel-agenteval {theirs}, Python {document['python']}, opentelemetry-sdk {document['opentelemetry']}"
    if theirs == client:
        return ok("collector", found)
    return warning("collector", f"{found}; the client here is {client}", "install the same release on both sides")


def _about_judge(web: Web, judge: dict[str, Any] | None, *, asks: bool) -> Check:
    if judge is None:
        advice = "scores that need one stay away: set judge.base_url or judge.api_key (docs/judge.md)"
        return ok("judge", "none is configured", advice)
    trouble = judge["trouble"]
    if asks and not trouble:
        status, answer = web.post("/api/v1/judge/check", {})
        trouble = (answer or {}).get("trouble") if status == 200 else f"it cannot be checked (status {status})"
    if trouble:
        advice = "check judge.base_url, judge.api_key and judge.model in the collector's settings"
        return error("judge", f"{judge['model']}: {trouble}", advice)
    return ok("judge", f"{judge['model']}, {'its endpoint answers' if asks else 'no trouble so far'}")
