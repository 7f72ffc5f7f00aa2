"""The addresses of the JSON API: which parameters each takes, and which document it answers with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from agenteval_collector.api.documents import (
    AgreementPage,
    ComparisonDocument,
    ExchangePage,
    ReliabilityPage,
    SessionDocument,
    SessionPage,
    TraceDocument,
)
from agenteval_collector.api.parameters import asked_of, optional, required
from agenteval_collector.api.ports import Queries
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.wire import found, limit_of, trace_id_of


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, whose `{parts}` are given to `read` with the request; `parameters` are those of its query string."""

    path: str
    summary: str
    answer: Any
    """The type of the document."""
    read: Callable[[Queries, Request], object]
    parameters: Sequence[str] = ()
    required: Sequence[str] = ()


def _trace(queries: Queries, request: Request) -> TraceDocument:
    trace_id = trace_id_of(request.path_params["trace_id"])
    return found(queries.trace(trace_id), f"trace {trace_id}")


def _judgements(queries: Queries, request: Request) -> ExchangePage:
    trace_id = trace_id_of(request.path_params["trace_id"])
    return {"items": found(queries.judgements(trace_id), f"trace {trace_id}"), "next_cursor": None}


def _session(queries: Queries, request: Request) -> SessionDocument:
    session_id = request.path_params["session_id"]
    return found(queries.session(session_id), f"session {session_id!r}")


def _sessions(queries: Queries, request: Request) -> SessionPage:
    wanted, limit = session_filter(asked_of(request)), limit_of(request.query_params.get("limit"))
    page = queries.sessions(wanted, limit=limit, cursor=optional(request, "cursor"))
    answer: SessionPage = {"items": page.items, "next_cursor": page.next_cursor}
    if wanted.agent is not None:
        answer["hit_rate"] = queries.hit_rate(wanted.agent)
    return answer


def _agreement(queries: Queries, request: Request) -> AgreementPage:
    return {"items": queries.agreement(name=optional(request, "name")), "next_cursor": None}


def _reliability(queries: Queries, request: Request) -> ReliabilityPage:
    page = queries.reliability(
        agent=optional(request, "agent"),
        version=optional(request, "version"),
        variant=optional(request, "variant"),
        limit=limit_of(request.query_params.get("limit")),
        cursor=optional(request, "cursor"),
    )
    return {"items": page.items, "next_cursor": page.next_cursor}


def _comparison(queries: Queries, request: Request) -> ComparisonDocument:
    before, after = (required(request, name) for name in ("before", "after"))
    agent, variant = optional(request, "agent"), optional(request, "variant")
    return queries.reliability_comparison(before, after, agent=agent, variant=variant)


ENDPOINTS: Final = (
    Endpoint(
        "/api/v1/reliability",
        "Figures over runs, by agent and version",
        ReliabilityPage,
        _reliability,
        ("agent", "version", "variant", "limit", "cursor"),
    ),
    Endpoint(
        "/api/v1/reliability/comparison",
        "Two versions of an agent side by side",
        ComparisonDocument,
        _comparison,
        ("before", "after", "agent", "variant"),
        ("before", "after"),
    ),
    Endpoint("/api/v1/traces/{trace_id}", "A trace with its outcomes", TraceDocument, _trace),
    Endpoint("/api/v1/traces/{trace_id}/judgements", "The judge's exchanges about a trace", ExchangePage, _judgements),
    Endpoint("/api/v1/agreement", "The agreement of scores with labels", AgreementPage, _agreement, ("name",)),
    Endpoint("/api/v1/sessions", "Sessions", SessionPage, _sessions, (*PARAMETERS, "limit", "cursor")),
    Endpoint("/api/v1/sessions/{session_id}", "A session with its traces", SessionDocument, _session),
)
"""In the order in which they are tried: a session's id may hold anything."""
