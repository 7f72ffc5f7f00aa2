"""The input and output of observers. Each kind of finding has one observer.

An observer looks for one fact in a complete trace. It yields an `Observation` for each place where the fact holds, in
order. It says only what the trace shows: content that was not recorded is neither good nor bad.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import chain
from typing import TypeAlias

from agenteval_collector.model.failed_calls import quote
from otel_agenteval.finding import Severity
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json, ToolCall, Trace, Turn


@checked_dataclass(frozen=True, slots=True)
class ObservedTrace:
    """A trace to look at. `is_first`: no earlier trace of its session is known."""

    trace: Trace
    is_first: bool

    @property
    def is_history_known(self) -> bool:
        """True if everything that was said before the trace is known: nothing was said, or the model was sent the
        conversation from the user's first words on."""
        trace = self.trace
        is_sent = bool(trace.history) and trace.is_history_begun
        return (is_sent or (self.is_first and not trace.history)) and not trace.partial

    def turns(self) -> Iterator[tuple[int, Turn]]:
        """Yield the turns, each with its index."""
        return enumerate(self.trace.turns)

    def calls(self) -> Iterator[tuple[int, ToolCall]]:
        """Yield the tool calls in order, each with the index of its turn."""
        return ((index, call) for index, turn in self.turns() for call in turn.tool_calls)

    def outcomes(self) -> Iterator[tuple[int, ToolCall]]:
        """Yield the tool calls whose outcome this trace tells, each with the index of its turn: first calls of earlier
        traces whose results arrived with this one, then its own calls."""
        context = self.trace.told
        return chain(((0, call) for call in context[len(context) - self.trace.told_now :]), self.calls())


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One place where a fact holds.

    `reason` is a sentence of evidence, `metadata` the values that it rests on. `turn` is an index. `agent` is None for
    the turn's own agent, and `severity` for that of the kind.
    """

    reason: str
    turn: int
    span_id: str | None
    agent: str | None = None
    tool: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    severity: Severity | None = None


Observer: TypeAlias = Callable[[ObservedTrace], Iterator[Observation]]


def of_call(turn: int, call: ToolCall, reason: str, **metadata: Json) -> Observation:
    """Return an observation of a tool call. A call without a span is shown on the span of its turn."""
    return Observation(
        reason=f"{quote(call.name)} {reason}",
        turn=turn,
        span_id=call.span_id,
        agent=call.agent,
        tool=quote(call.name),
        metadata=metadata,
    )


def written(value: Json) -> str:
    """Return a value as text: a text as it is, another value as JSON. Fields are sorted, so equal values have equal
    texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
