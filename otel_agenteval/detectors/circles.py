"""Circles of agents, which hand over to one another again and again."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from otel_agenteval.detectors.fingerprints import MAX_KEPT, Compared
from otel_agenteval.detectors.likeness import MIN_CONTENT
from otel_agenteval.detectors.repeated_steps import Streak
from otel_agenteval.detectors.rules import LoopKind, RuleBook, loop
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.tool_names import tool_name
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import CallOutcome

MAX_AGENTS: Final = 64
"""Agents whose newest words are remembered."""
MAX_WORDS: Final = 300
"""Characters of a reply that may be a mere hand-over."""

_NEW_WORDS: Final = "each time in new words"


@dataclass(slots=True, eq=False)
class _AgentTurn:
    """The steps of one agent until another one acts, or until it hands over by a tool. `is_new` says that the turn does
    more than hand over, or may do so, and therefore cannot be part of a circle."""

    first: Step
    last: Step
    is_new: bool
    reply: Hashable | None = None
    tells: bool = False
    """True if its words are more than a courtesy."""


class Circles:
    """Finds agents that take turns over and over, and say only what they said before.

    If they hand over by a tool, new courtesies are nothing, and other new words only put the circle in doubt. A call of
    any other tool that tells something new is progress, and breaks the circle. So does a turn whose words were not
    recorded, because nobody knows that it is the same.
    """

    def __init__(self, rules: RuleBook) -> None:
        self._rules = rules
        self._streak = Streak()
        self._known: LruMap[Hashable, Step] = LruMap(MAX_AGENTS)
        self._said: LruMap[str | None, Hashable | None] = LruMap(MAX_AGENTS)
        self._made: LruMap[int, bool] = LruMap(MAX_AGENTS)
        self._turn: _AgentTurn | None = None

    def observe(self, step: Step) -> Finding | None:
        """Return the circle that `step` completes: it ends the last turn by handing over, or begins the next turn."""
        turn, circle = self._turn, None
        if turn is None:
            turn = self._turn = _AgentTurn(step, step, is_new=False)
        elif step.agent != turn.first.agent:
            circle = self._circle(turn, None, step)
            # Agents that work at the same time do not take turns.
            turn = self._turn = _AgentTurn(step, step, is_new=not step.follows(turn.last.ended_at))
        turn.last = step
        if step.kind is StepKind.MODEL:
            if step.result and not turn.is_new:
                turn.reply = _reply(step)
                turn.is_new = turn.reply is None
                turn.tells = turn.tells or _tells(step)
        elif _is_handover(step):
            self._turn = None
            return self._circle(turn, step.name, step) or circle
        elif step.error is None and step.outcome not in (CallOutcome.NOTHING, CallOutcome.REFUSED):
            turn.is_new = turn.is_new or not self._was_made(step)
        return circle

    def _was_made(self, step: Step) -> bool:
        """Return whether a call was made before, and told the same."""
        call = hash((step.name, str(step.arguments)[:MAX_KEPT], str(step.result)[:MAX_KEPT]))
        was_made = call in self._made
        self._made.put(call, True)
        return was_made

    def _circle(self, turn: _AgentTurn, tool: str | None, step: Step) -> Finding | None:
        """Return the circle that a turn completes. The turn ends by `tool`, or because `step` is another agent's."""
        streak, agent = self._streak, turn.first.agent
        if turn.is_new or (tool is None and turn.reply is None):
            streak.begin(None)
            if self._known.weight:
                self._known.clear()
            return None
        key = (agent, tool or turn.reply)
        if tool is not None:
            is_new = agent in self._said and turn.reply != self._said.get(agent)
            streak.acted = streak.acted or (is_new and turn.tells)
            self._said.put(agent, turn.reply)
        before = self._known.get(key)
        self._known.put(key, turn.last)
        if before is None:
            in_new_words = streak.acted
            streak.begin(key)
            streak.acted = in_new_words
            return None
        if not turn.first.follows(before.ended_at, before.asked_by):
            return None
        streak.add(key, agent or tool or "", turn.last.span_id)
        rule = self._rules.of(agent).cycle
        if len(streak.times) < 2 or streak.rounds < rule.repeats or streak.told is not None:
            return None
        streak.told = Mode.ALARM
        names = ", ".join(name for name, _ in streak.names.values())
        reason = (
            f"{len(streak.times)} agents took turns at least {streak.rounds} times over, and nothing new came of it: "
            f"{names}"
        )
        doubt = _NEW_WORDS if streak.acted else None
        return loop(LoopKind.CYCLE, rule.mode, step.span_id, reason, streak.evidence("agents"), doubt)


def _is_handover(step: Step) -> bool:
    """Return whether a tool hands over for good. A tool that waits for the other agent's work returns that as its
    result."""
    return (
        tool_name(step.name).hands_over
        and step.error is None
        and (step.result is None or len(str(step.result)) <= MIN_CONTENT)
    )


def _tells(step: Step) -> bool:
    """Return whether a reply tells something: it has a number, or is long."""
    reply = step.reply
    return isinstance(reply, str) and (len(reply) > MIN_CONTENT or any(map(str.isdigit, reply)))


def _reply(step: Step) -> Hashable | None:
    """Return a value that is equal for the same reply. None if the reply is too long for a mere hand-over."""
    if isinstance(step.result, str) and len(step.result) > (MAX_WORDS if step.read is None else MAX_KEPT):
        return None
    return Compared(step.result, step.read)
