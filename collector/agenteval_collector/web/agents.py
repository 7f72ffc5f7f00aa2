"""The pages of agents over time: all of them, and one with its charts, versions, problems and worst sessions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agenteval_collector.api.agent_documents import AgentDocument, AgentItem, AgentVersionDocument, RateDocument
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.wire import found
from agenteval_collector.model.agents import Range
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.problems.problem import ProblemFilter
from agenteval_collector.runtime.errors import NotFound
from agenteval_collector.web import formats
from agenteval_collector.web.charts import Spark, Unit, charts_of, evaluators, main_evaluator, spark
from otel_agenteval.metrics import difference_interval

SLOW_REFRESH_SECONDS: Final = 30
"""For pages whose figures change by the hour: nobody's place in them is taken away every few seconds."""
SHOWN: Final = 5
"""Problems and sessions of an agent that its page shows."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent in the listing: the evaluator that says most of it, and the trends of passing and failing."""

    agent: AgentItem
    evaluator: str | None
    passing: Spark
    failing: Spark


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A figure of two versions. `difference` and its interval are those of shares; `is_worse`: it leaves out 0."""

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
        points, low, high = (f"{100 * each:+.0f}".replace("-", "−") for each in (self.difference, *self.interval))
        return f"{points} points ({low} to {high})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of an agent side by side."""

    before: str
    after: str
    rows: list[ComparedRow]


class AgentPages:
    """Renders the pages of agents. Each method returns HTML, or raises the error that the error page then shows."""

    def __init__(self, queries: Queries, render: Callable[..., str]) -> None:
        self._queries = queries
        self._render = render

    def agents(self, chosen: Range, *, cursor: str | None) -> str:
        """Return the agents, those with the newest telemetry first."""
        page = self._queries.agents(chosen, cursor=cursor)
        asked = {"range": chosen.value}
        return self._render(
            "agents.html",
            refresh=None if cursor else SLOW_REFRESH_SECONDS,
            page=page,
            rows=[_row(each) for each in page["items"]],
            first="/agents" + formats.query(asked) if cursor else None,
            next="/agents" + formats.query({**asked, "cursor": page["next_cursor"]}) if page["next_cursor"] else None,
        )

    def agent(self, name: str, chosen: Range, asked: Mapping[str, str]) -> str:
        """Return an agent; two of its versions are compared, the newest two where `asked` names none."""
        agent = found(self._queries.agent(name, chosen), f"agent {name!r}")
        main = main_evaluator(agent)
        return self._render(
            "agent.html",
            refresh=SLOW_REFRESH_SECONDS,
            agent=agent,
            main=main,
            names=evaluators(agent, main)[:3],
            drawn=charts_of(agent, main),
            comparison=compared(agent, asked.get("before"), asked.get("after")),
            problems=self._queries.problems(ProblemFilter(agent=name), limit=SHOWN).items,
            sessions=self._queries.sessions(SessionFilter(agent=name, order=Order.ATTENTION), limit=SHOWN).items,
        )


def compared(agent: AgentDocument, before: str | None, after: str | None) -> Comparison | None:
    """Return two versions side by side, the newest two where none is named; None where there are not two. Raises
    NotFound for a version that no trace of that time has."""
    versions = {each["version"]: each for each in agent["versions"] if each["version"] is not None}
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
    """Return a row of shares; they are worse where they go up (1) or down (-1)."""
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
