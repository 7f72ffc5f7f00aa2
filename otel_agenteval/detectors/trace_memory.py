"""What the agent runs of a trace know together: what is volatile in the results of its tools, and which calls are made
again in one agent run after the other."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from otel_agenteval.detectors.calls import Call, is_step, likeness_of
from otel_agenteval.detectors.likeness import Likeness, Result
from otel_agenteval.detectors.repeated_steps import PATIENCE, Row
from otel_agenteval.detectors.rules import LoopKind, RepetitionRule, loop
from otel_agenteval.detectors.steps import Step
from otel_agenteval.detectors.volatile import VolatileValues
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Json

MAX_TOOLS: Final = 64
"""Tools of a trace of which is remembered what is volatile. The one that was not called for longest is forgotten."""

MAX_CALLS: Final = 24
"""Different calls of a trace that are remembered, whoever made them."""


@dataclass(slots=True, eq=False)
class _Made:
    """The same call of an agent, wherever in the trace."""

    result: Result | None
    turn: int
    agent_run: str | None
    pauses: int
    row: Row[None] = field(default_factory=Row)
    alike: int = 1
    """How often it told the same, with other calls in between."""
    agent_runs: int = 1
    """Agent runs, with other agents in between, in which it was made."""
    told: bool = False


class TraceMemory:
    """What is known of a trace, whichever agent run learnt it. It takes the same memory however long the trace is."""

    def __init__(self) -> None:
        self.volatile: LruMap[str, VolatileValues] = LruMap(MAX_TOOLS)
        self._made: LruMap[Hashable, _Made] = LruMap(MAX_CALLS)
        self._agent: str | None = None
        self._turn = 0
        self._paused_at = 0
        self._ended_at: int | None = None

    def hear(self, step: Step) -> None:
        """Note whose turn it is, and whether nobody did anything for long."""
        if step.agent != self._agent:
            self._agent, self._turn = step.agent, self._turn + 1
        if step.started_at is not None and step.started_at - (self._ended_at or step.started_at) >= PATIENCE:
            self._paused_at = self._turn
        if step.ended_at is not None:
            self._ended_at = max(step.ended_at, self._ended_at or step.ended_at)

    def forget_calls(self) -> None:
        """Begin anew, because the user has said something new."""
        self._made.clear()

    def returned(self, call: Call, rule: RepetitionRule, pauses: int, *, is_in_row: bool) -> Finding | None:
        """Return the loop of a call that one agent run after the other makes again, whatever came of it, or that shows
        the same content again and again between others. `pauses` are those of the agent run so far."""
        step = call.step
        agent_run = step.agent_run.span_id if step.agent_run is not None else None
        made = self._made.get((step.agent, call.key))
        if made is None or self._has_waited(made, agent_run, pauses):
            made = _Made(call.result, self._turn, agent_run, pauses)
            made.row.begin(None, step)
            self._made.put((step.agent, call.key), made)
            return None
        if not made.row.go_on(step):
            return None
        is_page = call.result is not None and call.result.is_page
        made.alike += (is_page or not is_in_row) and likeness_of(call.result, made.result) is not Likeness.OTHER
        made.agent_runs += agent_run != made.agent_run and self._turn != made.turn
        made.result, made.turn, made.agent_run, made.pauses = call.result, self._turn, agent_run, pauses
        shows_the_same = call.is_content and made.alike >= rule.repeats - 1
        is_task = step.agent_run is not None and step.agent_run.is_tool
        # A step that names no target may rightly be made more often.
        is_sent_again = not is_task and made.agent_runs >= rule.repeats + (1 if is_step(call) else -1)
        if made.told or not (shows_the_same or is_sent_again):
            return None
        made.told = True
        reason = f"{step.name} was called {made.row.count} times with the same arguments in the trace"
        evidence: dict[str, Json] = {
            "tool": step.name,
            "repetitions": made.row.count,
            "span_ids": [*made.row.span_ids],
        }
        doubt = "other things were done in between"
        return loop(LoopKind.NO_PROGRESS, rule.mode, step.span_id, reason, evidence, doubt)

    def _has_waited(self, made: _Made, agent_run: str | None, pauses: int) -> bool:
        """Return whether somebody waited since a call was made, as between two looks at something slow."""
        return pauses > made.pauses if agent_run == made.agent_run else self._paused_at > made.turn
