"""Read what traces with a problem have, and what others of its agent have."""

import json
from collections.abc import Iterator
from typing import Final

from sqlalchemy import Row, Select, String, bindparam, exists, func, select

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.traits import TracedTraits, Trait
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import OF_TRACE, matching, own, problem_traces, sessions, trace_views, traces
from agenteval_collector.stores.trace_json import tools_in

MOST_COMPARED: Final = 200
"""The newest traces with a problem, and as many others, that are compared."""
LARGEST: Final = 100_000
"""Characters of what is kept of a trace, beyond which it is left out: all of it would have to be read."""


def read_traits(
    connection: TenantConnection, problem_id: str, whose: AgentKey
) -> tuple[list[TracedTraits], list[TracedTraits]]:
    """Return the traits of the newest traces with a problem, and of the newest others of its agent."""
    values = {"problem": problem_id, "agent": whose.agent, "service": whose.service or ""}
    of_problem, others = (connection.execute(query, values) for query in (_OF_PROBLEM, _OTHERS))
    return [_traced(row) for row in of_problem], [_traced(row) for row in others]


def _traced(row: Row[tuple[str, ...]]) -> TracedTraits:
    return TracedTraits(row.session_id, frozenset(_traits(row)))


def _traits(row: Row[tuple[str, ...]]) -> Iterator[Trait]:
    for kind, value in (("version", row.service_version), ("environment", row.environment), ("user", row.user_id)):
        if value:
            yield Trait(kind, value)
    view = json.loads(row.view)
    for kind in ("model", "agent"):
        yield from (Trait(kind, name) for name in view.get(f"{kind}s", ()))
    yield from (Trait("tool", name) for name in tools_in(row.view))


_TRAITS: Final = (
    select(
        traces.c.session_id, traces.c.service_version, sessions.c.environment, sessions.c.user_id, trace_views.c.view
    )
    .join(sessions, matching(sessions, traces, "session_id"))
    .join(trace_views, OF_TRACE)
    .where(own(traces), func.length(trace_views.c.view) <= LARGEST)
    .limit(MOST_COMPARED)
)
_PROBLEM: Final = bindparam("problem", type_=String)


def _newest_of_problem() -> Select[tuple[str, ...]]:
    occurrences = (
        select(problem_traces.c.trace_id)
        .where(own(problem_traces), problem_traces.c.problem_id == _PROBLEM, problem_traces.c.trace_id.is_not(None))
        .order_by(problem_traces.c.seen_at.desc())
        .limit(MOST_COMPARED)
    )
    return _TRAITS.where(traces.c.trace_id.in_(occurrences.scalar_subquery()))


_OF_PROBLEM: Final = _newest_of_problem()
_OTHERS: Final = _TRAITS.where(
    traces.c.agent.is_not_distinct_from(bindparam("agent", type_=String)),
    func.coalesce(traces.c.service, "") == bindparam("service"),
    ~exists().where(matching(problem_traces, traces, "trace_id"), problem_traces.c.problem_id == _PROBLEM),
).order_by(traces.c.started_at.desc())
