"""The addresses of the JSON API: which parameters each takes, and which document it answers with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agenteval_collector.api import problems
from agenteval_collector.api.documents import (
    ComparisonDocument,
    DriftPage,
    ExchangePage,
    ReliabilityDocument,
    ReliabilityPage,
    SessionDocument,
    SessionItem,
    SessionPage,
    TraceDocument,
)
from agenteval_collector.api.labels import LabelRequest, write_label
from agenteval_collector.api.ports import Reports
from agenteval_collector.api.problem_documents import ProblemDocument, ProblemPage
from agenteval_collector.api.problems import ID_DIGITS, problem_filter
from agenteval_collector.api.quality_documents import AgreementPage, DrawDocument, QualityDocument, QualityPage
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.sessions import PARAMETERS, session_filter
from agenteval_collector.api.wire import found, hex_id, limit_of, session_ids_of, trace_id_of, trace_ids_of
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.judging import GOAL_SUCCESS
from agenteval_collector.runtime.errors import InvalidRequest

Asked: TypeAlias = Mapping[str, str]
"""The parameters of a request, those in its path included; an empty text stands for none."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address; `parameters` are those of its query string."""

    path: str
    summary: str
    answer: Any
    """The type of the document."""
    read: Callable[[Queries, Asked], object]
    parameters: Sequence[str] = ()
    required: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WriteEndpoint:
    """An address that something is posted to, as JSON."""

    path: str
    summary: str
    body: Any
    """The type of the document that is posted."""
    answer: Any
    """The type of the document that is answered."""
    write: Callable[[Queries, Reports, bytes], object]


def read_trace(queries: Queries, asked: Asked) -> TraceDocument:
    """Return the trace that is asked for."""
    trace_id = trace_id_of(asked.get("trace_id", ""))
    return found(queries.trace(trace_id), f"trace {trace_id}")


def read_session(queries: Queries, asked: Asked) -> SessionDocument:
    """Return the session that is asked for."""
    session_id = asked.get("session_id", "")
    return found(queries.session(session_id), f"session {session_id!r}")


def read_sessions(queries: Queries, asked: Asked) -> Page[SessionItem]:
    """Return the sessions that are asked for."""
    return queries.sessions(
        session_filter(asked), limit=limit_of(asked.get("limit")), cursor=asked.get("cursor") or None
    )


def read_reliability(queries: Queries, asked: Asked) -> Page[ReliabilityDocument]:
    """Return the reliability of the agents' versions that are asked for."""
    named = {name: asked.get(name) or None for name in ("agent", "version", "variant", "cursor")}
    return queries.reliability(**named, limit=limit_of(asked.get("limit")))


def _sessions(queries: Queries, asked: Asked) -> SessionPage:
    page = read_sessions(queries, asked)
    answer: SessionPage = {"items": page.items, "next_cursor": page.next_cursor}
    if agent := asked.get("agent"):
        answer["hit_rate"] = queries.hit_rate(agent)
    return answer


def read_judgements(queries: Queries, asked: Asked) -> ExchangePage:
    """Return the judge's exchanges about the trace that is asked for."""
    trace_id = trace_id_of(asked["trace_id"])
    return {"items": found(queries.judgements(trace_id), f"trace {trace_id}"), "next_cursor": None}


def read_session_judgements(queries: Queries, asked: Asked) -> ExchangePage:
    """Return the judge's exchanges about the session that is asked for."""
    if not (session_id := asked.get("session_id")):
        raise InvalidRequest("session_id is missing")
    return {"items": found(queries.session_judgements(session_id), f"session {session_id!r}"), "next_cursor": None}


def read_agreement(queries: Queries, asked: Asked) -> AgreementPage:
    """Return the agreement of scores with labels."""
    return {"items": queries.agreement(name=asked.get("name") or None), "next_cursor": None}


def read_drift(queries: Queries, asked: Asked) -> DriftPage:
    """Return whether the judge says something else than before."""
    return {"items": queries.drifts(), "next_cursor": None}


def read_quality(queries: Queries, asked: Asked) -> Page[QualityDocument]:
    """Return the rates of passing that are asked for."""
    named = {name: asked.get(name) or None for name in ("agent", "version", "name", "cursor")}
    return queries.quality(**named, limit=limit_of(asked.get("limit")))


def _quality(queries: Queries, asked: Asked) -> QualityPage:
    page = read_quality(queries, asked)
    return {"items": page.items, "next_cursor": page.next_cursor}


def read_next_to_label(queries: Queries, asked: Asked) -> DrawDocument:
    """Return the trace or session that is to be labelled next."""
    if not (name := asked.get("name")):
        raise InvalidRequest("name is missing")
    agent, version = (asked.get(each) or None for each in ("agent", "version"))
    ids_of, what = (session_ids_of, "session") if name == GOAL_SUCCESS else (trace_ids_of, "trace")
    drawn = queries.next_to_label(name, agent=agent, version=version, skip=ids_of(asked.get("skip", "")))
    return found(drawn, f"a {what} to be labelled next for {name!r}")


def _reliability(queries: Queries, asked: Asked) -> ReliabilityPage:
    page = read_reliability(queries, asked)
    return {"items": page.items, "next_cursor": page.next_cursor}


def read_comparison(queries: Queries, asked: Asked) -> ComparisonDocument:
    """Return two versions of an agent side by side."""
    for name in ("before", "after"):
        if not asked.get(name):
            raise InvalidRequest(f"{name} is missing")
    agent, variant, primary = (asked.get(name) or None for name in ("agent", "variant", "primary"))
    return queries.reliability_comparison(
        asked["before"], asked["after"], agent=agent, variant=variant, primary=primary
    )


def read_problems(queries: Queries, asked: Asked) -> Page[ProblemDocument]:
    """Return the problems that are asked for."""
    return queries.problems(
        problem_filter(asked), limit=limit_of(asked.get("limit")), cursor=asked.get("cursor") or None
    )


def read_problem(queries: Queries, asked: Asked) -> ProblemDocument:
    """Return the problem that is asked for."""
    problem_id = hex_id("problem_id", asked.get("problem_id", ""), ID_DIGITS)
    return found(queries.problem(problem_id), f"problem {problem_id}")


def _problems(queries: Queries, asked: Asked) -> ProblemPage:
    page = read_problems(queries, asked)
    return {"items": page.items, "next_cursor": page.next_cursor}


ENDPOINTS: Final = (
    Endpoint("/api/v1/problems", "Problems", ProblemPage, _problems, (*problems.PARAMETERS, "limit", "cursor")),
    Endpoint("/api/v1/problems/{problem_id}", "A problem", ProblemDocument, read_problem),
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
        read_comparison,
        ("before", "after", "agent", "variant", "primary"),
        ("before", "after"),
    ),
    Endpoint("/api/v1/traces/{trace_id}", "A trace with its outcomes", TraceDocument, read_trace),
    Endpoint(
        "/api/v1/traces/{trace_id}/judgements", "The judge's exchanges about a trace", ExchangePage, read_judgements
    ),
    Endpoint(
        "/api/v1/judgements",
        "The judge's exchanges about a session as a whole",
        ExchangePage,
        read_session_judgements,
        ("session_id",),
        ("session_id",),
    ),
    Endpoint("/api/v1/agreement", "The agreement of scores with labels", AgreementPage, read_agreement, ("name",)),
    Endpoint("/api/v1/judge", "Whether the judge says something else than before", DriftPage, read_drift),
    Endpoint(
        "/api/v1/quality",
        "Rates of passing, by agent, version and evaluator",
        QualityPage,
        _quality,
        ("agent", "version", "name", "limit", "cursor"),
    ),
    Endpoint(
        "/api/v1/review/next",
        "The trace or session to be labelled next, drawn at random",
        DrawDocument,
        read_next_to_label,
        ("name", "agent", "version", "skip"),
        ("name",),
    ),
    Endpoint("/api/v1/sessions", "Sessions", SessionPage, _sessions, (*PARAMETERS, "limit", "cursor")),
    Endpoint("/api/v1/sessions/{session_id}", "A session with its traces", SessionDocument, read_session),
)
"""In the order in which they are tried: a session's id may hold anything."""

WRITE_ENDPOINTS: Final = (
    WriteEndpoint(
        "/api/v1/labels",
        "Say what a score of a trace should have been; answered with the trace",
        LabelRequest,
        TraceDocument,
        write_label,
    ),
)
"""Those that only requests with a token or a key may use (`api/writing.py`)."""
