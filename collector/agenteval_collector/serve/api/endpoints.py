"""The endpoints of the JSON API: the parameters that each takes, and the document that it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

from agenteval_collector.model.agents import Range
from agenteval_collector.model.callers import Scope
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.model.labels import LabelSource
from agenteval_collector.model.session_filter import Order
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api import answers, figure_documents, trace_documents, wire, writes
from agenteval_collector.serve.api.answers import Item, Listing
from agenteval_collector.serve.api.filters import (
    ALARM_PARAMETERS,
    PROBLEM_PARAMETERS,
    SESSION_PARAMETERS,
    TRACE_PARAMETERS,
    alarm_filter,
    problem_filter,
    session_filter,
    trace_filter,
)
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.wire import Parameters
from otel_agenteval.internal.text import storable

_PAGED: Final = ("limit", "cursor")
"""The parameters of every listing that has pages."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint; `call` makes the document that is answered."""

    path: str
    summary: str
    call: Callable[..., object]

    @property
    def answer(self) -> Any:
        """The type of the document that is answered."""
        return get_type_hints(self.call)["return"]


@dataclass(frozen=True, slots=True)
class ReadEndpoint(Endpoint):
    """An endpoint that reads. `call` takes the queries and the parameters. `parameters` names those that it knows, and
    `required` those among them that must be given."""

    parameters: Sequence[str] = ()
    required: Sequence[str] = ()

    @property
    def reads_spans(self) -> bool:
        """True if the trace is assembled again from the log for it."""
        return "/spans" in self.path or self.path.endswith("/otlp")


@dataclass(frozen=True, slots=True)
class WriteEndpoint(Endpoint):
    """An endpoint that takes a JSON body by POST. `call` takes the queries, the gate, the body, and the parameters
    in the path by name."""

    scope: Scope = Scope.LABEL
    """The scope that a caller needs."""
    shows_content: bool = False
    """True if the document has stored content, so that a caller without the scope read gets a `DoneDocument`."""

    @property
    def answer(self) -> Any:
        """The type of the document that is answered."""
        document = get_type_hints(self.call)["return"]
        return document | answers.DoneDocument if self.shows_content else document

    @property
    def body(self) -> Any:
        """The type of the body."""
        return get_type_hints(self.call)["body"]


ENDPOINTS: Final[list[ReadEndpoint]] = []
"""The endpoints that read. The order matters: the first pattern that fits an address answers, and a session id may hold
anything."""

Read = TypeVar("Read", bound=Callable[[Queries, Parameters], object])


def _get(path: str, summary: str, *parameters: str, required: Sequence[str] = ()) -> Callable[[Read], Read]:
    """Make a function an endpoint below `/api/v1/`, with these parameters and the `required` ones."""

    def registered(read: Read) -> Read:
        ENDPOINTS.append(ReadEndpoint(f"/api/v1/{path}", summary, read, (*required, *parameters), required))
        return read

    return registered


@_get("agents", "Agents over time", "range", "environment", *_PAGED)
def read_agents(queries: Queries, parameters: Parameters) -> figure_documents.AgentPage:
    """Return agents with their figures over time."""
    limit, cursor = _place(parameters)
    return queries.agents(range_of(parameters), limit=limit, cursor=cursor, **wire.texts_of(parameters, "environment"))


@_get("agents/{agent}", "An agent over time", "service", "range", "environment")
def read_agent(queries: Queries, parameters: Parameters) -> figure_documents.AgentDocument:
    """Return the agent that is asked for."""
    agent = wire.id_of("agent", parameters.get("agent", ""))
    wanted = wire.texts_of(parameters, "service", "environment")
    return wire.found(queries.agent(agent, range_of(parameters), **wanted), f"agent {agent!r}")


@_get("alarms", "Alarms", *ALARM_PARAMETERS, *_PAGED)
def read_alarms(queries: Queries, parameters: Parameters) -> Listing[figure_documents.AlarmDocument]:
    """Return the alarms that are asked for."""
    limit, cursor = _place(parameters)
    return _listing(queries.alarms(alarm_filter(parameters), limit=limit, cursor=cursor))


@_get("arrivals", "What the newest traces of each service have")
def read_arrivals(queries: Queries, parameters: Parameters) -> Listing[figure_documents.ArrivalDocument]:
    """Return what has arrived from each service."""
    return _all(queries.arrivals())


@_get("collector", "The collector's versions, and its judge")
def read_collector(queries: Queries, parameters: Parameters) -> answers.CollectorDocument:
    """Return the collector's versions, and its judge."""
    return queries.collector()


@_get("overview", "What all agents do together", "range", "environment")
def read_overview(queries: Queries, parameters: Parameters) -> figure_documents.OverviewDocument:
    """Return what all agents do together."""
    return queries.overview(range_of(parameters), **wire.texts_of(parameters, "environment"))


@_get("problems", "Problems", *PROBLEM_PARAMETERS, *_PAGED)
def read_problems(queries: Queries, parameters: Parameters) -> Listing[figure_documents.ProblemDocument]:
    """Return the problems that are asked for."""
    limit, cursor = _place(parameters)
    return _listing(queries.problems(problem_filter(parameters), limit=limit, cursor=cursor))


@_get("problems/{problem_id}", "A problem")
def read_problem(queries: Queries, parameters: Parameters) -> figure_documents.ProblemDocument:
    """Return the problem that is asked for."""
    problem_id = wire.hex_id("problem_id", parameters.get("problem_id", ""), wire.PROBLEM_DIGITS)
    return wire.found(queries.problem(problem_id), f"problem {problem_id}")


@_get("problems/{problem_id}/common", "What the traces with a problem have in common")
def read_common(queries: Queries, parameters: Parameters) -> figure_documents.CommonDocument:
    """Return what the traces with the problem that is asked for have in common."""
    return queries.common_traits(read_problem(queries, parameters))


@_get("quarantine", "Input that is set aside")
def read_quarantine(queries: Queries, parameters: Parameters) -> Listing[answers.QuarantineDocument]:
    """Return what is set aside, because the collector died on it or cannot read it."""
    return _all(queries.quarantine())


@_get("reliability", "Figures over runs, by agent and version", "agent", "service", "version", "variant", *_PAGED)
def read_reliability(queries: Queries, parameters: Parameters) -> Listing[figure_documents.ReliabilityDocument]:
    """Return the reliability of the agents' versions that are asked for."""
    limit, cursor = _place(parameters)
    return _listing(
        queries.reliability(
            limit=limit, cursor=cursor, **wire.texts_of(parameters, "agent", "service", "version", "variant")
        )
    )


@_get(
    "reliability/comparison",
    "Two versions of an agent side by side",
    *("agent", "service", "variant", "primary"),
    required=("before", "after"),
)
def read_comparison(queries: Queries, parameters: Parameters) -> figure_documents.ComparisonDocument:
    """Return two versions of an agent side by side."""
    before, after = _required(parameters, "before"), _required(parameters, "after")
    return queries.reliability_comparison(
        before, after, **wire.texts_of(parameters, "agent", "service", "variant", "primary")
    )


@_get("traces", "Traces with their outcomes", *TRACE_PARAMETERS, *_PAGED)
def read_traces(queries: Queries, parameters: Parameters) -> Listing[trace_documents.TraceDocument]:
    """Return the stored traces that are asked for."""
    limit, cursor = _place(parameters)
    return _listing(queries.listed_traces(trace_filter(parameters), limit=limit, cursor=cursor))


@_get("traces/{trace_id}", "A trace with its outcomes")
def read_trace(queries: Queries, parameters: Parameters) -> trace_documents.TraceDocument:
    """Return the trace that is asked for."""
    trace_id = wire.trace_id_of(parameters.get("trace_id", ""))
    return wire.found(queries.trace(trace_id), f"trace {trace_id}")


@_get("traces/{trace_id}/spans", "The spans of a trace", *_PAGED)
def read_spans(queries: Queries, parameters: Parameters) -> trace_documents.SpanPage:
    """Return the spans of the trace that is asked for."""
    limit, cursor = _place(parameters)
    return queries.spans.page(read_trace(queries, parameters)["trace_id"], limit=limit, cursor=cursor)


@_get("traces/{trace_id}/spans/{span_id}", "A span of a trace, with its attributes and messages")
def read_span(queries: Queries, parameters: Parameters) -> trace_documents.SpanDocument:
    """Return the span that is asked for."""
    trace_id, span_id = wire.trace_id_of(parameters["trace_id"]), wire.hex_id("span_id", parameters["span_id"], 16)
    return wire.found(queries.spans.span(trace_id, span_id), f"span {span_id} of trace {trace_id}")


@_get("traces/{trace_id}/otlp", "A trace as it was recorded, as requests of OTLP/JSON")
def read_otlp(queries: Queries, parameters: Parameters) -> Listing[dict[str, Any]]:
    """Return what was recorded of the trace that is asked for; no item if its spans are not kept any more."""
    return _all(queries.spans.otlp(read_trace(queries, parameters)["trace_id"]))


@_get("traces/{trace_id}/judgements", "The judge's exchanges about a trace")
def read_judgements(queries: Queries, parameters: Parameters) -> Listing[trace_documents.ExchangeDocument]:
    """Return the judge's exchanges about the trace that is asked for."""
    trace_id = wire.trace_id_of(parameters["trace_id"])
    return _all(wire.found(queries.judgements(trace_id), f"trace {trace_id}"))


@_get("judgements", "The judge's exchanges about a session as a whole", required=("session_id",))
def read_session_judgements(queries: Queries, parameters: Parameters) -> Listing[trace_documents.ExchangeDocument]:
    """Return the judge's exchanges about the session that is asked for."""
    session_id = _required(parameters, "session_id")
    return _all(wire.found(queries.session_judgements(session_id), f"session {session_id!r}"))


@_get("agreement", "The agreement of scores with labels", "name")
def read_agreement(queries: Queries, parameters: Parameters) -> Listing[figure_documents.AgreementDocument]:
    """Return the agreement of scores with labels."""
    return _all(queries.agreement(**wire.texts_of(parameters, "name")))


@_get("labels", "Labels of scores", "name", "source", *_PAGED)
def read_labels(queries: Queries, parameters: Parameters) -> Listing[trace_documents.LabelItem]:
    """Return the labels that are asked for."""
    limit, cursor = _place(parameters)
    texts = wire.texts_of(parameters, "name", "source")
    source = wire.choice("source", texts["source"], LabelSource) if texts["source"] else None
    return _listing(queries.labels(texts["name"], source, limit=limit, cursor=cursor))


@_get("judge", "Whether the judge says something else than before")
def read_drift(queries: Queries, parameters: Parameters) -> Listing[figure_documents.DriftDocument]:
    """Return whether the judge scores the same traces differently than before."""
    return _all(queries.drifts())


@_get("quality", "Rates of passing, by agent, version and evaluator", "agent", "service", "version", "name", *_PAGED)
def read_quality(queries: Queries, parameters: Parameters) -> Listing[figure_documents.QualityDocument]:
    """Return the rates of passing that are asked for."""
    limit, cursor = _place(parameters)
    return _listing(
        queries.quality(limit=limit, cursor=cursor, **wire.texts_of(parameters, "agent", "service", "version", "name"))
    )


@_get(
    "review/next",
    "The trace or session to be labelled next, drawn at random",
    *("agent", "service", "version", "skip"),
    required=("name",),
)
def read_next_to_label(queries: Queries, parameters: Parameters) -> figure_documents.DrawDocument:
    """Return the trace or session to label next."""
    name = _required(parameters, "name")
    ids_of, what = (wire.session_ids_of, "session") if name == GOAL_SUCCESS else (wire.trace_ids_of, "trace")
    skip = ids_of(parameters.get("skip", ""))
    drawn = queries.next_to_label(name, skip=skip, **wire.texts_of(parameters, "agent", "service", "version"))
    return wire.found(drawn, f"a {what} to be labelled next for {name!r}")


@_get("sessions", "Sessions", *SESSION_PARAMETERS, *_PAGED)
def read_sessions(queries: Queries, parameters: Parameters) -> trace_documents.SessionPage:
    """Return the sessions that are asked for."""
    limit, cursor = _place(parameters)
    wanted = session_filter(parameters)
    page = queries.sessions(wanted, limit=limit, cursor=cursor)
    answer: trace_documents.SessionPage = {"items": page.items, "next_cursor": page.next_cursor}
    if agent := parameters.get("agent"):
        answer["hit_rate"] = queries.hit_rate(agent, parameters.get("service") or None)
        if wanted.order is Order.ATTENTION:
            answer["attention"] = queries.attention(wanted)
    return answer


@_get("sessions/{session_id}", "A session with its traces")
def read_session(queries: Queries, parameters: Parameters) -> trace_documents.SessionDocument:
    """Return the session that is asked for."""
    session_id = storable(parameters.get("session_id", ""))
    return wire.found(queries.session(session_id), f"session {session_id!r}")


def range_of(parameters: Parameters) -> Range:
    """Return the range of time that is asked for; a day by default. Raises InvalidRequest."""
    return wire.choice("range", parameters.get("range") or Range.DAY, Range)


def _place(parameters: Parameters) -> tuple[int, str | None]:
    """Return the page size and the cursor that are asked for."""
    return wire.limit_of(parameters.get("limit")), parameters.get("cursor") or None


def _required(parameters: Parameters, name: str) -> str:
    if not (text := wire.texts_of(parameters, name)[name]):
        raise InvalidRequest(f"{name} is missing")
    return text


def _listing(page: Page[Item]) -> Listing[Item]:
    return {"items": page.items, "next_cursor": page.next_cursor}


def _all(items: list[Item]) -> Listing[Item]:
    return {"items": items, "next_cursor": None}


WRITE_ENDPOINTS: Final = (
    WriteEndpoint(
        "/api/v1/labels",
        "Say what a score should have been; answered with the trace or the session",
        writes.write_label,
        shows_content=True,
    ),
    WriteEndpoint(
        "/api/v1/problems/{problem_id}/resolve",
        "Mark a problem as resolved",
        writes.write_resolved,
        shows_content=True,
    ),
    WriteEndpoint(
        "/api/v1/problems/{problem_id}/mute",
        "Mute a problem until a time, or end that",
        writes.write_muted,
        shows_content=True,
    ),
    WriteEndpoint(
        "/api/v1/problems/{problem_id}/merge",
        "Merge a problem into another one, or a text of a split problem back into it",
        writes.write_merged,
        shows_content=True,
    ),
    WriteEndpoint(
        "/api/v1/problems/{problem_id}/split",
        "Take apart what was merged into a problem, or each text of it",
        writes.write_split,
        shows_content=True,
    ),
    WriteEndpoint("/api/v1/judge", "Have the judge score what it has not", writes.write_judging),
    WriteEndpoint(
        "/api/v1/delete",
        "Delete a session, a user's sessions, or what is old; or ask how far that is",
        writes.write_deletion,
        Scope.ADMIN,
    ),
    WriteEndpoint(
        "/api/v1/judge/check", "Find out whether the judge's endpoint answers, for nothing", writes.write_check
    ),
)
"""The endpoints that write. They take a token or a key (`serve/api/write_guard.py`)."""
