"""The agents of an open trace's steps. An agent's run, whose span names it, ends after its steps."""

from collections import OrderedDict
from typing import Final

MAX_NAMES: Final = 256
"""Spans of a trace whose agent is remembered for the steps below them; beyond that, the first are forgotten."""


class Agents:
    """The agents of one trace, as far as the spans that have arrived name them.

    A step is of the agent that it names, else of the one that the span above it names, or the steps beside it name. A
    step beside an agent's run may be of that agent or of its caller: then its agent is not known.
    """

    def __init__(self) -> None:
        self.name_steps = False
        """True where steps name their agents here. A step that names none may then be of any of them."""
        self._below: OrderedDict[bytes, str | None] = OrderedDict()
        self._names: set[str] = set()

    def heard(self, name: str, span_id: bytes, parent_id: bytes, *, is_step: bool) -> None:
        """Note that a span names an agent: a step its own, any other span that of the steps below it."""
        self._names.add(name)
        if is_step:
            self.name_steps = True
            beside = self._below.setdefault(parent_id, name)
            if beside != name:
                self._below[parent_id] = None
        else:
            self._below[span_id] = name
            self._below.setdefault(parent_id, None)
        while len(self._below) > MAX_NAMES:
            self._below.popitem(last=False)
        if len(self._names) > 2:
            self._names.pop()

    def below(self, span_id: bytes) -> str | None:
        """Return the agent of the steps below a span. None where it is not known, and where they may be of several."""
        return self._below.get(span_id)

    def of_step(self, name: str | None, parent_id: bytes) -> str | None:
        """Return the agent of a step that names this one or none. None where it cannot be told."""
        known = name or self.below(parent_id)
        if known is None and self.name_steps and len(self._names) == 1:
            return next(iter(self._names))
        return known

    def may_be_of_several(self, parent_id: bytes) -> bool:
        """Return whether a step below that span, which names no agent, may belong to an agent that is known by name."""
        return self.name_steps or (parent_id in self._below and self._below[parent_id] is None)
