"""The pages of problems: a listing, and one problem with its examples. Its forms resolve, mute, merge and split it."""

from typing import Final, NamedTuple
from urllib.parse import quote

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.problem import ProblemState, problem_of_finding
from agenteval_collector.model.session_filter import TraceFilter
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.figure_documents import ProblemDocument
from agenteval_collector.serve.api.filters import PROBLEM_PARAMETERS, problem_filter
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.trace_documents import TraceDocument
from agenteval_collector.serve.api.wire import Parameters, found
from agenteval_collector.serve.api.writes import merge_problem, mute_problem, resolve_problem, split_problem
from agenteval_collector.serve.web import formats
from agenteval_collector.serve.web.site import SLOW_REFRESH_SECONDS, Site, chosen, page_links

MUTED_FOR: Final = 7 * 24 * 3600 * 1_000_000_000
"""Nanoseconds for which the page mutes a problem."""
TRACES_SHOWN: Final = 25


class ProblemExample(NamedTuple):
    """A trace in which a problem occurred. `happened` is None if that is not kept any more."""

    trace_id: str
    trace: TraceDocument
    happened: str | None


def problems(site: Site, parameters: Parameters) -> str:
    """Return the page that lists the requested problems."""
    filters, cursor = chosen(parameters, PROBLEM_PARAMETERS), parameters.get("cursor") or None
    scope = site.scope(parameters, filters)
    listed = {**scope.listed(site.clock.now()), **filters}
    filters.pop("environment", None)
    page = site.queries.problems(problem_filter(listed), cursor=cursor)
    return site.render(
        "problems.html",
        "/problems",
        scope,
        refresh=None if cursor else SLOW_REFRESH_SECONDS,
        problems=page.items,
        quarantine=[] if cursor or filters else site.queries.quarantine(),
        asked=filters,
        states=[("", "any"), *((state, state) for state in ProblemState)],
        query=formats.query(listed),
        **page_links("/problems", {**filters, **scope.asked}, cursor, page.next_cursor),
    )


def problem(site: Site, parameters: Parameters) -> str:
    """Return the page of a problem. Its forms carry the token that a write needs."""
    problem_id = parameters["problem_id"].lower()
    problem = found(site.queries.problem(problem_id), f"problem {problem_id}")
    cursor = parameters.get("cursor") or None
    page = site.queries.listed_traces(TraceFilter(problem=problem_id), limit=TRACES_SHOWN, cursor=cursor)
    examples = [ProblemExample(trace["trace_id"], trace, _happened(problem, trace)) for trace in page.items]
    return site.render(
        "problem.html",
        "/problems",
        refresh=None if cursor else SLOW_REFRESH_SECONDS,
        problem=problem,
        examples=examples,
        common=site.queries.common_traits(problem),
        token=site.token,
        **page_links(f"/problems/{problem_id}", {}, cursor, page.next_cursor),
    )


def _happened(problem: ProblemDocument, trace: TraceDocument) -> str | None:
    alike = [
        finding
        for finding in trace["findings"]
        if (finding["kind"], finding["tool"]) == (problem["kind"], problem["tool"])
    ]
    for finding in alike:
        key = problem_of_finding(
            AgentKey(finding["agent"], problem["service"]),
            finding["kind"],
            finding["severity"],
            finding["tool"],
            finding["metadata"],
        )
        if key is not None and key.problem_id == problem["problem_id"]:
            return finding["reason"]
    # A problem of many rare shapes together has none of these keys. Any reason of the same kind is then an example.
    reasons = [finding["reason"] for finding in alike]
    reasons += [
        outcome["reason"] for outcome in trace["outcomes"] if outcome["name"] == problem["kind"] and outcome["reason"]
    ]
    return next(iter(reasons), None)


def mark(clock: Clock, gate: Gate, form: Parameters) -> str:
    """Resolve, mute, merge or split a problem as the form says. Return the address of the page that shows it.

    Raises NotFound for an unknown problem, and InvalidRequest for any other mark.
    """
    problem_id = form["problem_id"]
    match form.get("say"):
        case "resolved":
            resolve_problem(gate, problem_id, by=form.get("by"))
        case "muted":
            mute_problem(gate, problem_id, until=clock.now() + MUTED_FOR, by=form.get("by"))
        case "unmuted":
            mute_problem(gate, problem_id, until=None, by=form.get("by"))
        case "merged":
            into = form.get("into", "").strip().lower()
            merge_problem(gate, problem_id, into=into, by=form.get("by"))
            return f"/problems/{into}"
        case "split" | "split by text" as say:
            split_problem(gate, problem_id, by=form.get("by"), by_text=say == "split by text")
            return f"/problems?agent={quote(form['agent'])}" if form.get("agent") else "/problems"
        case other:
            raise InvalidRequest(
                f"say is {(other or '')[:64]!r}, not resolved, muted, unmuted, merged, split or split by text"
            )
    return f"/problems/{problem_id}"
