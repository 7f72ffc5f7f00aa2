"""The agent runs of a trace. An agent run may continue an earlier one."""

from dataclasses import dataclass
from typing import Final

from otel_agenteval.detectors.agent_loops import AgentRunDetectors
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.trace_memory import TraceMemory
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import ModelQuestion

MAX_RUNS: Final = 64
"""Agent runs of a trace that are remembered. The one that did nothing for longest is forgotten."""

_Key = tuple[str | None, str | None]


@dataclass(slots=True)
class _Remembered:
    detectors: AgentRunDetectors
    opening: str | None = None
    """The beginning of the agent run's conversation. None if that was not recorded."""
    ended_at: int | None = None
    is_guessed: bool = False
    """True while it is only assumed that the newest agent run has the same conversation."""


class AgentRuns:
    """Joins agent runs that continue one another, because some frameworks begin a new one for each turn.

    An agent run continues one that is over if its model is sent the same conversation again. If that is not
    recorded, it does so unless another agent or a tool called it. Agent runs side by side never continue one another.
    """

    def __init__(self, rules: RuleBook) -> None:
        self._rules = rules
        self._runs: LruMap[_Key, _Remembered] = LruMap(MAX_RUNS)
        self._memory = TraceMemory()

    def of(self, step: Step) -> AgentRunDetectors:
        """Return the detectors of the agent run that `step` belongs to."""
        key = (step.agent, step.agent_run.span_id if step.agent_run is not None else None)
        run = self._runs.get(key)
        if run is None:
            run = self._began(key, step)
        if run.is_guessed and step.kind is StepKind.MODEL:
            self._learn(run, step)
        if step.ended_at is not None and (run.ended_at is None or step.ended_at > run.ended_at):
            run.ended_at = step.ended_at
        return run.detectors

    def _began(self, key: _Key, step: Step) -> _Remembered:
        question = step.question() if step.kind is StepKind.MODEL and step.agent_run is not None else None
        earlier = self._earlier(step, question)
        run = self._runs.pop(earlier) if earlier is not None else None
        run = run or _Remembered(AgentRunDetectors(self._rules.of(step.agent), self._memory))
        run.is_guessed = step.agent_run is not None
        self._runs.put(key, run)
        return run

    def _learn(self, run: _Remembered, step: Step) -> None:
        """Begin with new detectors if `step` shows that its agent run has a conversation of its own."""
        question = step.question()
        if question is None:
            return
        run.is_guessed = False
        if run.opening is not None and question.opening != run.opening:
            run.detectors, run.opening = AgentRunDetectors(self._rules.of(step.agent), self._memory), None
        if run.opening is None:
            run.opening = question.opening or question.newest

    def _earlier(self, step: Step, question: ModelQuestion | None) -> _Key | None:
        """Return the key of the agent run that is continued by the one that `step` begins."""
        if step.agent_run is None or step.agent_run.is_parallel:
            return None
        for key, run in reversed(self._runs.items()):
            if key[0] != step.agent or not step.follows(run.ended_at):
                continue
            if question is not None and run.opening is not None:
                goes_on = question.opening == run.opening
            else:
                goes_on = not step.agent_run.is_called
            if goes_on:
                return key
        return None
