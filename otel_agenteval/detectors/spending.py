"""The spending of an agent in a trace, over all of its runs."""

from collections.abc import Iterator
from typing import Final

from otel_agenteval.detectors.loop import loop
from otel_agenteval.detectors.rules import Budget, Kind
from otel_agenteval.detectors.steps import Step
from otel_agenteval.finding import Finding
from otel_agenteval.model import Json

NANOSECONDS: Final = 1_000_000_000


class Spending:
    """Tells of each bound of a budget once, when it is exceeded."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._spent = {"steps": 0, "tokens": 0}
        self._over: set[str] = set()
        self._started_at: int | None = None
        self._last_span_id = ""

    def observe(self, step: Step) -> Iterator[Finding | None]:
        """Yield the bounds that `step` exceeds."""
        if self._started_at is None:
            self._started_at = step.started_at
        self._last_span_id = step.span_id
        self._spent["steps"] += 1
        self._spent["tokens"] += step.tokens
        for unit, spent in self._spent.items():
            yield from self._exceeds(unit, spent)
        if step.ended_at is not None:
            yield from self.tick(step.ended_at)

    def tick(self, now: int) -> Iterator[Finding | None]:
        """Yield the bound of time, if it has run out at `now`."""
        if self._started_at is not None:
            yield from self._exceeds("seconds", (now - self._started_at) / NANOSECONDS)

    def _exceeds(self, unit: str, spent: float) -> Iterator[Finding | None]:
        bound: float | None = getattr(self._budget, unit)
        if bound is None or spent <= bound or unit in self._over:
            return
        self._over.add(unit)
        reason = f"the agent has used {spent:g} {unit}, more than the {bound:g} of its budget"
        evidence: dict[str, Json] = {"unit": unit, "spent": spent, "budget": bound}
        yield loop(Kind.BUDGET, self._budget.mode, self._last_span_id, reason, evidence)
