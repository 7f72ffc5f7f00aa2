"""Find sessions that take an agent more than its sessions usually do.

The effort of a session is the sum over its traces: steps (model and tool calls), tokens, seconds spent in turns, and
money. A measure is unusual where at most `UNUSUAL_SHARE` of the agent's last finished sessions took as much or more. A
session in progress is compared after each trace. A measure that is not known of one trace is not known of its session.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agenteval_collector.model.effort import Effort
from otel_agenteval.finding import Finding, FindingKind, Severity
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import ModelCall, Trace

KEPT_SESSIONS: Final = 200
"""Finished sessions of an agent that later ones are compared with."""
MIN_SESSIONS: Final = 30
"""Finished sessions that are needed before anything is called unusual."""
UNUSUAL_SHARE: Final = 0.15
"""Share of those sessions that may take as much as an unusual one."""
KEPT_AGENTS: Final = 1_000
"""Agents that are remembered. The one without news for longest is forgotten."""


def effort_of(trace: Trace, *, usd: float | None = None) -> Effort:
    """Return the effort of one trace. `usd` is the cost of its model calls, where their prices are known."""
    calls = trace.model_calls
    used = [call.usage for call in calls if call.usage is not None]
    return Effort(
        steps=len(calls) + len(trace.tool_calls),
        tokens=sum(usage.input_tokens + usage.output_tokens for usage in used) if used or not calls else None,
        seconds=sum(turn.ended_at - turn.started_at for turn in trace.turns) / 1e9,
        usd=usd,
    )


@dataclass(frozen=True, slots=True)
class Unusual:
    """A measure of which a session takes more than `percentile` % of the `sessions` that it is compared with."""

    measure: str
    value: float
    percentile: float
    sessions: int


class AgentEfforts:
    """Compares the effort of sessions with the last finished sessions of their agents. Belongs to one thread.

    `cost` returns the price of model calls in US dollars, or None where prices are not known.
    """

    def __init__(self, cost: Callable[[Sequence[ModelCall]], float | None]) -> None:
        self._cost = cost
        self._efforts: LruMap[str, deque[Effort]] = LruMap(KEPT_AGENTS)

    def of(self, trace: Trace) -> Effort:
        """Return the effort of the trace."""
        return effort_of(trace, usd=self._cost(trace.model_calls))

    def remember_efforts(self, efforts: Iterable[tuple[str, Effort]]) -> None:
        """Remember the efforts of finished sessions, each with its agent, in this order."""
        for agent, effort in efforts:
            self._efforts.get_or_make(agent, lambda: deque(maxlen=KEPT_SESSIONS)).append(effort)

    def compare(self, agent: str, effort: Effort) -> list[Unusual]:
        """Return the measures of a session's `effort` up to now that are unusual for `agent`."""
        kept = self._efforts.get(agent) or ()
        compared = ((name, _values(name, [effort]), _values(name, kept)) for name in Effort.__slots__)
        return [
            Unusual(name, now, 100 * sum(value < now for value in before) / len(before), len(before))
            for name, present, before in compared
            for now in present
            if len(before) >= MIN_SESSIONS and sum(value >= now for value in before) <= UNUSUAL_SHARE * len(before)
        ]

    def unusual(
        self, trace: Trace, effort: Effort, *, agent: str | None, session_id: str, found_at: int
    ) -> list[Finding]:
        """Return the finding that a session's `effort` is unusual since `trace`; an empty list where it is not."""
        unusual = self.compare(agent, effort) if agent is not None else []
        return [unusual_effort(trace, unusual, session_id=session_id, found_at=found_at)] if unusual else []


def unusual_effort(trace: Trace, unusual: Sequence[Unusual], *, session_id: str, found_at: int) -> Finding:
    """Return the finding that a session's effort is unusual since `trace`. `unusual` has at least one measure."""
    measured = ", ".join(f"{_shown(each)} (more than {each.percentile:.0f} %)" for each in unusual)
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
            each.measure: {"value": each.value, "percentile": each.percentile, "sessions": each.sessions}
            for each in unusual
        },
        found_at=found_at,
    )


def _values(measure: str, efforts: "Sequence[Effort] | deque[Effort]") -> list[float]:
    return [value for each in efforts if (value := getattr(each, measure)) is not None]


def _shown(unusual: Unusual) -> str:
    return f"{unusual.value:.4g} USD" if unusual.measure == "usd" else f"{unusual.value:.3g} {unusual.measure}"
