"""Find sessions that take an agent more than its sessions usually do.

The effort of a session is the sum over its traces: steps (model and tool calls), tokens, seconds spent in turns, and
money. A session's place is the mean of its ranks in these among the agent's last finished sessions. Its effort is
unusual if at most `UNUSUAL_SHARE` of them have a place as high. A session in progress is compared after each trace. A
measure that is not known of one trace is not known of its session.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.effort import MEASURES, Effort
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.usage import NO_USAGE, UsageTotals, embeddings_usage, usage_of
from otel_agenteval.finding import Finding, FindingKind, Severity
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace

KEPT_SESSIONS: Final = 200
"""Finished sessions of an agent that later ones are compared with."""
MIN_SESSIONS: Final = 30
"""Finished sessions that are needed before anything is called unusual."""
UNUSUAL_SHARE: Final = 0.15
"""Share of those sessions that may take as much as an unusual one."""
KEPT_AGENTS: Final = 1_000
"""Agents that are remembered. The one without news for longest is forgotten."""


def effort_of(
    trace: Trace, *, usd: float | None = None, usage: UsageTotals = NO_USAGE, elsewhere: Collection[str] = ()
) -> Effort:
    """Return the effort of one trace. `usd` is the cost of its model calls, if all their prices are known, and `usage`
    what is known of each part. Calls with ids that count `elsewhere` are no steps."""
    calls = trace.model_calls
    used = [call.usage for call in calls if call.usage is not None]
    return Effort(
        steps=len(calls) + sum(call.call_id not in elsewhere for call in trace.tool_calls),
        tokens=sum(usage.total for usage in used) if used or not calls else None,
        seconds=sum(turn.ended_at - turn.started_at for turn in trace.turns) / 1e9,
        usd=usd,
        asked=_characters([turn.input for turn in trace.turns]),
        answered=_characters([turn.output for turn in trace.turns[-1:]]),
        usage=usage,
    )


def _characters(texts: Sequence[str | None]) -> int | None:
    return None if None in texts else sum(map(len, filter(None, texts)))


@dataclass(frozen=True, slots=True)
class Unusual:
    """A measure of a session whose effort is unusual: it is more than `percentile` % of the `sessions` that it is
    compared with took."""

    measure: str
    value: float
    percentile: float
    sessions: int


class _History:
    """The efforts of an agent's last finished sessions, and their places among each other."""

    def __init__(self) -> None:
        self._efforts: deque[Effort] = deque(maxlen=KEPT_SESSIONS)
        self._columns: dict[str, list[float]] = {}
        self._places: list[float] = []

    def __len__(self) -> int:
        return len(self._efforts)

    def append(self, effort: Effort) -> None:
        self._efforts.append(effort)
        self._columns = {}

    def ranks_of(self, effort: Effort) -> dict[str, float]:
        """Return the share of the sessions that took less, by measure that is known of both; equal ones count half."""
        self._sort()
        ranks = {}
        for measure, column in self._columns.items():
            value = getattr(effort, measure)
            if value is not None and column:
                ranks[measure] = (bisect_left(column, value) + bisect_right(column, value)) / (2 * len(column))
        return ranks

    def is_unusual(self, ranks: Mapping[str, float]) -> bool:
        """Return whether at most `UNUSUAL_SHARE` of the sessions have a place as high as that of these ranks."""
        as_high = len(self._places) - bisect_left(self._places, _place(ranks))
        return as_high <= UNUSUAL_SHARE * len(self._places)

    def _sort(self) -> None:
        if self._columns:
            return
        values = {name: [getattr(effort, name) for effort in self._efforts] for name in MEASURES}
        self._columns = {
            name: sorted(value for value in column if value is not None) for name, column in values.items()
        }
        self._places = sorted(_place(self.ranks_of(effort)) for effort in self._efforts)


def _place(ranks: Mapping[str, float]) -> float:
    return fmean(ranks.values()) if ranks else 0.0


class AgentEfforts:
    """Compares the effort of sessions with the last finished sessions of their agents. Belongs to one thread.

    Without `prices`, nobody knows what a call costs.
    """

    def __init__(self, prices: TokenPrices | None = None) -> None:
        self._prices = prices
        self._histories: LruMap[AgentKey, _History] = LruMap(KEPT_AGENTS)

    def of(self, trace: Trace, elsewhere: Collection[str] = ()) -> Effort:
        """Return the effort of the trace, without the calls whose ids count `elsewhere`."""
        if self._prices is None:
            return effort_of(trace, elsewhere=elsewhere)
        calls = trace.model_calls
        usage = usage_of(calls, self._prices.cost_of)
        usd = self._prices.of_calls(calls)
        if trace.embeddings:
            embedded = embeddings_usage(trace.embeddings, self._prices.of_embedding)
            usage += embedded
            usd = None if usd is None or embedded.is_lower_bound else usd + (embedded.cost_usd or 0.0)
        return effort_of(trace, usd=usd, usage=usage, elsewhere=elsewhere)

    def remember_efforts(self, efforts: Iterable[tuple[AgentKey, Effort]]) -> None:
        """Remember the efforts of finished sessions, each with its agent, in this order."""
        for agent, effort in efforts:
            self._histories.get_or_make(agent, _History).append(effort)

    def compare(self, agent: AgentKey, effort: Effort) -> list[Unusual]:
        """Return the measures of a session's `effort` up to now, the most unusual first. Empty if it is not unusual for
        `agent`."""
        history = self._histories.get(agent)
        if history is None or len(history) < MIN_SESSIONS:
            return []
        ranks = history.ranks_of(effort)
        if not ranks or not history.is_unusual(ranks):
            return []
        # The measures that made it unusual: those above its place.
        high = sorted(((rank, name) for name, rank in ranks.items() if rank >= _place(ranks)), reverse=True)
        return [Unusual(name, getattr(effort, name), 100 * rank, len(history)) for rank, name in high]

    def unusual(
        self, trace: Trace, effort: Effort, *, agent: AgentKey, session_id: str, found_at: int
    ) -> list[Finding]:
        """Return the finding that a session's `effort` is unusual since `trace`; an empty list if it is not."""
        unusual = self.compare(agent, effort) if agent.agent is not None else []
        return [unusual_effort(trace, unusual, session_id=session_id, found_at=found_at)] if unusual else []


def unusual_effort(trace: Trace, unusual: Sequence[Unusual], *, session_id: str, found_at: int) -> Finding:
    """Return the finding that a session's effort is unusual since `trace`. `unusual` has at least one measure."""
    measured = ", ".join(
        f"{_shown(unusual_measure)} (more than {unusual_measure.percentile:.0f} %)" for unusual_measure in unusual
    )
    return Finding(
        kind=FindingKind.UNUSUAL_EFFORT,
        severity=Severity.INFO,
        reason=f"the session took more than this agent's last {unusual[0].sessions} sessions usually did: {measured}",
        trace_id=trace.trace_id,
        session_id=session_id,
        span_id=trace.turns[-1].span_id if trace.turns else trace.root_span_id,
        agent=trace.agent,
        service=trace.service,
        service_version=trace.service_version,
        environment=trace.environment,
        metadata={
            unusual_measure.measure: {
                "value": unusual_measure.value,
                "percentile": unusual_measure.percentile,
                "sessions": unusual_measure.sessions,
            }
            for unusual_measure in unusual
        },
        found_at=found_at,
    )


def _shown(unusual: Unusual) -> str:
    return f"{unusual.value:.4g} USD" if unusual.measure == "usd" else f"{unusual.value:.3g} {unusual.measure}"
