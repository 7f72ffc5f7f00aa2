"""Agents that hand over to one another in circles."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from otel_agenteval.detectors.content import MAX_KEPT, Compared, written
from otel_agenteval.detectors.repetition import Cycle, Cycles
from otel_agenteval.detectors.results import MAX_SHORT, MIN_CONTENT
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.tool_names import tool_name

MAX_AGENTS: Final = 64
"""Agents whose newest words are remembered."""

NEW_WORDS: Final = "each time in new words"
"""The doubt about agents that say something else whenever they hand over."""


class _Turn:
    """What an agent does until another one does something, or until it hands over by a tool."""

    __slots__ = ("agent", "asked", "is_new", "last", "reply", "started_at")

    def begin(self, step: Step, *, is_new: bool) -> None:
        """Begin with `step`. `is_new`: it is not known to be the same as another one."""
        self.agent = step.agent
        self.started_at = step.started_at
        self.last = step
        self.is_new = is_new
        self.reply: Hashable | None = None
        self.asked: Step | None = None


class Circles:
    """Finds agents that take turns in the same order, over and over, and only say what they said before.

    Who calls another tool than one that hands over does something. Where they hand over by a tool, new words are only a
    doubt: they may say no more than that. A turn of which no words were recorded is not known to be the same.
    """

    def __init__(self, rules: RuleBook) -> None:
        self._rules = rules
        self._cycles = Cycles()
        self._said: OrderedDict[str | None, Hashable | None] = OrderedDict()
        self._turn = _Turn()
        self._is_open = False

    def observe(self, step: Step) -> Cycle | None:
        """The circle whose last round is over by `step`, which hands over or is the first one of the next turn."""
        circle = None
        turn = self._turn
        if not self._is_open:
            self._is_open = True
            turn.begin(step, is_new=False)
        elif step.agent != turn.agent:
            circle = self._close(turn, None)
            # Agents at the same time take no turns.
            turn.begin(step, is_new=not step.follows(turn.last.ended_at))
        turn.last = step
        if step.kind is StepKind.MODEL:
            turn.asked = step
            if step.result and not turn.is_new:
                turn.reply = _reply(step)
                turn.is_new = turn.reply is None
        elif tool_name(step.name).hands_over and _is_handover(step):
            self._is_open = False
            return self._close(turn, step.name) or circle
        else:
            turn.is_new = True
        return circle

    def _close(self, turn: _Turn, tool: str | None) -> Cycle | None:
        if turn.is_new:
            self._cycles.clear()
            return None
        key: Hashable | None = None
        doubt = None
        if tool is not None:
            key = (turn.agent, tool)
            doubt = NEW_WORDS if turn.reply != self._said.get(turn.agent, turn.reply) else None
            self._said[turn.agent] = turn.reply
            if len(self._said) > MAX_AGENTS:
                self._said.popitem(last=False)
        elif _is_recorded(turn):
            key = (turn.agent, turn.reply)
        times = self._rules.of(turn.agent).cycle.repeats
        return self._cycles.add(key, turn.last, times, doubt, name=turn.agent or tool, started_at=turn.started_at)


def _is_handover(step: Step) -> bool:
    """Whether a tool that hands over gives no work back, as one does that waits for what the other agent has done."""
    return step.error is None and (step.result is None or len(str(step.result)) <= MIN_CONTENT)


def _is_recorded(turn: _Turn) -> bool:
    """Whether it is known what the agent said, be it nothing."""
    return turn.reply is not None or (turn.asked is not None and turn.asked.asked() is not None)


def _reply(step: Step) -> Hashable | None:
    """Equal for the same reply; one that has to be read out of something is compared by its length first.

    None where so much is said that it is no mere handing over.
    """
    if isinstance(step.result, str) and len(step.result) > (MAX_SHORT if step.read is None else MAX_KEPT):
        return None
    if step.read is None:
        return written(step.result)
    return len(str(step.result)), Compared(step.result, step.read)
