"""Circles of agents, which hand over to one another again and again."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from otel_agenteval.detectors.fingerprints import MAX_KEPT, Compared
from otel_agenteval.detectors.repeated_steps import Cycles
from otel_agenteval.detectors.rules import LoopKind, RuleBook, loop
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.tool_names import tool_name
from otel_agenteval.detectors.tool_results import MAX_SHORT, MIN_CONTENT
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap

MAX_AGENTS: Final = 64
"""Agents whose newest words are remembered."""

_NEW_WORDS: Final = "each time in new words"


@dataclass(slots=True, eq=False)
class _AgentTurn:
    """The steps of one agent until another one acts, or until it hands over by a tool. `is_new` says that the turn does
    more than hand over, or may do so, and therefore cannot be part of a circle."""

    first: Step
    last: Step
    is_new: bool
    reply: Hashable | None = None


class Circles:
    """Finds agents that take turns in the same order, over and over, and say only what they said before.

    If they hand over by a tool, new words only put the circle in doubt. A call of any other tool is progress, and
    breaks the circle. So does a turn whose words were not recorded, because nobody knows that it is the same.
    """

    def __init__(self, rules: RuleBook) -> None:
        self._rules = rules
        self._cycles = Cycles()
        self._said: LruMap[str | None, Hashable | None] = LruMap(MAX_AGENTS)
        self._turn: _AgentTurn | None = None

    def observe(self, step: Step) -> Finding | None:
        """Return the circle that `step` completes: it ends the last turn by handing over, or begins the next turn."""
        turn, found = self._turn, None
        if turn is None:
            turn = self._turn = _AgentTurn(step, step, is_new=False)
        elif step.agent != turn.first.agent:
            found = self._circle(turn, None, step)
            # Agents that work at the same time do not take turns.
            turn = self._turn = _AgentTurn(step, step, is_new=not step.follows(turn.last.ended_at))
        turn.last = step
        if step.kind is StepKind.MODEL:
            if step.result and not turn.is_new:
                turn.reply = _reply(step)
                turn.is_new = turn.reply is None
        elif _is_handover(step):
            self._turn = None
            return self._circle(turn, step.name, step) or found
        else:
            turn.is_new = True
        return found

    def _circle(self, turn: _AgentTurn, tool: str | None, step: Step) -> Finding | None:
        """Return the circle that a turn completes. The turn ends by `tool`, or because `step` is another agent's."""
        if turn.is_new or (tool is None and turn.reply is None):
            self._cycles.clear()
            return None
        agent = turn.first.agent
        key, doubt = (agent, tool or turn.reply), None
        if tool is not None:
            is_new = agent in self._said and turn.reply != self._said.get(agent)
            doubt = _NEW_WORDS if is_new else None
            self._said.put(agent, turn.reply)
        rule = self._rules.of(agent).cycle
        cycle = self._cycles.add(key, agent or tool or "", turn.first, turn.last, rule.repeats, doubt)
        if cycle is None:
            return None
        names, times = ", ".join(cycle.names), f"at least {rule.repeats} times over"
        reason = f"{len(cycle.names)} agents took turns {times}, and nothing new came of it: {names}"
        return loop(
            LoopKind.CYCLE, rule.mode, step.span_id, reason, cycle.evidence("agents", rule.repeats), cycle.doubt
        )


def _is_handover(step: Step) -> bool:
    """Return whether a tool hands over for good. A tool that waits for the other agent's work returns that as its
    result."""
    return (
        tool_name(step.name).hands_over
        and step.error is None
        and (step.result is None or len(str(step.result)) <= MIN_CONTENT)
    )


def _reply(step: Step) -> Hashable | None:
    """Return a value that is equal for the same reply. None if the reply is too long for a mere hand-over."""
    if isinstance(step.result, str) and len(step.result) > (MAX_SHORT if step.read is None else MAX_KEPT):
        return None
    return Compared(step.result, step.read)
