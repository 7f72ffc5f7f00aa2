"""The pages of agents over time: a listing, and one agent with its charts, versions, problems and worst sessions."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from agenteval_collector.model.agents import Range
from agenteval_collector.model.problem import ProblemFilter
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.runtime.errors import NotFound
from agenteval_collector.serve.api.endpoints import range_of
from agenteval_collector.serve.api.figure_documents import AgentDocument, AgentItem, AgentVersionDocument, RateDocument
from agenteval_collector.serve.api.wire import Parameters, found
from agenteval_collector.serve.web.charts import Spark, Unit, charts_of, evaluators, main_evaluator, spark
from agenteval_collector.serve.web.site import SLOW_REFRESH_SECONDS, Site, chosen, page_links
from otel_agenteval.metrics.wilson import difference_interval

SHOWN: Final = 5
"""Problems and sessions of an agent that its page shows."""


class AgentRow(NamedTuple):
    """An agent in the listing, with its main evaluator, and the trends of its passing and failing traces."""

    agent: AgentItem
    evaluator: str | None
    passing: Spark
    failing: Spark


class ComparedRow(NamedTuple):
    """A figure of two versions of an agent.

    Only shares have a `difference` and its `interval`. `is_worse` is True if the whole interval lies on the worse
    side of 0.
    """

    name: str
    unit: Unit
    before: float | None
    after: float | None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    is_worse: bool = False

    @property
    def words(self) -> str:
        """The difference in percentage points, with its interval."""
        if self.difference is None or self.interval is None:
            return ""
        points, low, high = (f"{100 * ratio:+.0f}".replace("-", "−") for ratio in (self.difference, *self.interval))
        return f"{points} points ({low} to {high})"


class Comparison(NamedTuple):
    """Two versions of an agent side by side."""

    before: str
    after: str
    rows: list[ComparedRow]


def agents(site: Site, parameters: Parameters) -> str:
    """Return the page that lists the agents, those with the newest telemetry first."""
    time, cursor = range_of(parameters), parameters.get("cursor") or None
    scope = site.scope(parameters, {}, Range.DAY)
    page = site.queries.agents(time, cursor=cursor, environment=scope.environment)
    return site.render(
        "agents.html",
        "/agents",
        scope,
        refresh=None if cursor else SLOW_REFRESH_SECONDS,
        page=page,
        rows=[_row(item) for item in page["items"]],
        **page_links("/agents", scope.asked, cursor, page["next_cursor"]),
    )


def agent(site: Site, parameters: Parameters) -> str:
    """Return the page of an agent. It compares the versions `before` and `after`, or the newest two."""
    name = parameters["agent"]
    service = parameters.get("service") or None
    time = range_of(parameters)
    scope = site.scope(parameters, chosen(parameters, ("service", "before", "after")), Range.DAY)
    there = {"service": service, "environment": scope.environment}
    agent = found(site.queries.agent(name, time, **there), f"agent {name!r}")
    main = main_evaluator(agent)
    return site.render(
        "agent.html",
        "/agents",
        scope,
        refresh=SLOW_REFRESH_SECONDS,
        agent=agent,
        main=main,
        names=evaluators(agent, main)[:3],
        drawn=charts_of(agent, main),
        comparison=compared(agent, parameters.get("before"), parameters.get("after")),
        problems=site.queries.problems(
            ProblemFilter(agent=name, service=agent["service"], environment=scope.environment), limit=SHOWN
        ).items,
        sessions=site.queries.sessions(
            SessionFilter(agent=name, service=agent["service"], environment=scope.environment, order=Order.ATTENTION),
            limit=SHOWN,
        ).items,
    )


def compared(agent: AgentDocument, before: str | None, after: str | None) -> Comparison | None:
    """Return two versions of an agent side by side: the newest two if none is named. None if there are not two.

    Raises NotFound for a version that no trace in the agent's range of time has.
    """
    versions = {version["version"]: version for version in agent["versions"] if version["version"] is not None}
    for name in (before, after):
        if name and name not in versions:
            raise NotFound(f"version {name!r} has no trace in the last {agent['range']}")
    newest = [*versions]
    after = after or next((name for name in newest if name != before), None)
    before = before or next((name for name in newest if name != after), None)
    if before is None or after is None:
        return None
    return Comparison(before, after, [*_rows(versions[before], versions[after])])


def _rows(before: AgentVersionDocument, after: AgentVersionDocument) -> Iterator[ComparedRow]:
    for name in sorted(before["pass_rates"].keys() & after["pass_rates"].keys()):
        yield _share(f"pass rate, {name}", before["pass_rates"][name], after["pass_rates"][name], worse=-1)
    yield _share("traces with an error", before["errors"], after["errors"], worse=1)
    yield ComparedRow("cost a session", "usd", before["usd_per_session"], after["usd_per_session"])
    yield ComparedRow("time in turns, p50", "seconds", before["seconds"]["p50"], after["seconds"]["p50"])
    yield ComparedRow("time in turns, p95", "seconds", before["seconds"]["p95"], after["seconds"]["p95"])


def _share(name: str, before: RateDocument, after: RateDocument, *, worse: int) -> ComparedRow:
    """Return a row of shares. `worse` is 1 if a higher share is worse, and -1 if a lower one is."""
    first, second = before["rate"], after["rate"]
    if first is None or second is None or before["interval"] is None or after["interval"] is None:
        return ComparedRow(name, "share", first, second)
    (low, high), (lower, higher) = before["interval"], after["interval"]
    found_low, found_high = difference_interval(first, (low, high), second, (lower, higher))
    is_worse = found_low > 0 if worse > 0 else found_high < 0
    return ComparedRow(name, "share", first, second, second - first, (found_low, found_high), is_worse)


def _row(agent: AgentItem) -> AgentRow:
    main = main_evaluator(agent)
    return AgentRow(
        agent=agent,
        evaluator=main,
        passing=spark(agent["points"], lambda point: point["pass_rates"].get(main or "")),
        failing=spark(agent["points"], lambda point: point["errors"]),
    )
