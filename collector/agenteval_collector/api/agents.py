"""Agents over the API: their figures over time, from sums that the store keeps."""

from collections.abc import Sequence
from typing import Final

from agenteval_collector.api.agent_documents import (
    AgentDocument,
    AgentItem,
    AgentPage,
    AgentVersionDocument,
    FiguresDocument,
    OpenProblemsDocument,
    PointDocument,
    RangeDocument,
    RateDocument,
)
from agenteval_collector.api.ports import RecordSnapshot
from agenteval_collector.model.agents import HOUR, AgentFigures, AgentHistory, Range, SeenAgent, quantile
from agenteval_collector.problems import ProblemState
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.finding import Severity
from otel_agenteval.metrics import Clusters, clustered_interval

_PUT_OFF: Final = (ProblemState.MUTED, ProblemState.RESOLVED)
_DIGITS: Final = 6


def agent_page(records: RecordSnapshot, chosen: Range, *, now: int, limit: int, cursor: str | None) -> AgentPage:
    """Return a page of agents, those with the newest telemetry first. Raises InvalidRequest for a foreign cursor."""
    page = records.agents(cursor, limit)
    items = _items(records, page.items, chosen, now)
    return {**_range(chosen, now), "items": items, "next_cursor": page.next_cursor}


def agent_document(records: RecordSnapshot, agent: str, chosen: Range, *, now: int) -> AgentDocument | None:
    """Return an agent; None where it is unknown."""
    if (seen := records.agent(agent)) is None:
        return None
    [item] = _items(records, [seen], chosen, now)
    return {**_range(chosen, now), **item}


def _items(records: RecordSnapshot, seen: Sequence[SeenAgent], chosen: Range, now: int) -> list[AgentItem]:
    first, problems = chosen.first(now), _open_problems(records, now)
    items: list[AgentItem] = []
    for each in seen:
        history = records.agent_history(each.agent, first * chosen.step, chosen.step)
        items.append(
            {
                **_figures(history.total),
                "agent": each.agent,
                "last_seen_at": _time(each.last_seen_at),
                "problems": problems.get(each.agent, {"error": 0, "warning": 0}),
                "versions": _versions(history),
                "points": [_point(history, first + place, chosen.step) for place in range(chosen.points)],
            }
        )
    return items


def _open_problems(records: RecordSnapshot, now: int) -> dict[str | None, OpenProblemsDocument]:
    found: dict[str | None, OpenProblemsDocument] = {}
    for state, severity, agent, count in records.problem_counts(now):
        if state not in _PUT_OFF:
            counts = found.setdefault(agent, {"error": 0, "warning": 0})
            counts["error" if severity is Severity.ERROR else "warning"] += count
    return found


def _range(chosen: Range, now: int) -> RangeDocument:
    since = chosen.first(now) * chosen.step * HOUR
    return {"range": chosen.value, "since": _time(since), "step_seconds": chosen.step * 3600}


def _point(history: AgentHistory, number: int, step: int) -> PointDocument:
    return {**_figures(history.points.get(number, AgentFigures())), "at": _time(number * step * HOUR)}


def _versions(history: AgentHistory) -> list[AgentVersionDocument]:
    """Return the versions, those that began last first."""
    newest_first = sorted(history.versions, key=lambda version: (history.began[version], version), reverse=True)
    return [
        {
            **_figures(history.versions[version]),
            "version": version or None,
            "first_at": _time(history.began[version] * HOUR),
        }
        for version in newest_first
    ]


def _figures(found: AgentFigures) -> FiguresDocument:
    together = found.hours_per_session
    # Sums of floats have a rest far behind the point.
    usd = round(found.usd, _DIGITS) if found.priced else None
    return {
        "sessions": found.sessions,
        "errors": _rate(found.errors, together),
        "pass_rates": {name: _rate(sums, together) for name, sums in sorted(found.rates.items())},
        "usd": usd,
        "usd_per_session": None if usd is None else round(usd / found.sessions, _DIGITS),
        "unpriced": found.errors.trials - found.priced,
        "seconds": {"p50": quantile(found.steps, 0.5), "p95": quantile(found.steps, 0.95)},
    }


def _rate(sums: Clusters, together: float) -> RateDocument:
    interval = clustered_interval(sums, together)
    return {
        "traces": sums.trials,
        "count": sums.hits,
        "rate": sums.hits / sums.trials if sums.trials else None,
        "interval": None if interval is None else list(interval),
    }


def _time(nanoseconds: int) -> str:
    return rfc3339(nanoseconds) or ""
