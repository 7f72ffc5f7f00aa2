"""The spans of a trace that began and did not end, and which of them hang."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from otel_agenteval.detectors.steps import StepKind, StepStarted

MAX_OPEN: Final = 1024
"""Open spans of a trace that are watched; those that begin on top of them are not."""

_MAX_DEPTH: Final = 32
"""Spans around a span that hear of it."""


@dataclass(slots=True)
class _Open:
    span: StepStarted
    heard_at: int
    told: bool = False


class OpenSpans:
    """The open spans of a trace. A span is silent as long as nothing begins or ends inside it."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def start(self, span: StepStarted) -> None:
        """Note that a span began."""
        self.hear(span.parent_id, span.at)
        if len(self._open) < MAX_OPEN:
            self._open[span.span_id] = _Open(span, span.at)

    def end(self, span_id: str, at: int | None) -> None:
        """Note that a span ended. One that was not seen to begin is ignored."""
        ended = self._open.pop(span_id, None)
        if ended is not None and at is not None:
            self.hear(ended.span.parent_id, at)

    def silent(self, now: int) -> Iterator[tuple[StepStarted, int]]:
        """Yield the open calls with the nanoseconds of their silence, but those `told` of or around another one."""
        calls = [each for each in self._open.values() if each.span.kind is not StepKind.OTHER]
        waiting = {around.span.span_id for call in calls for around in self._around(call.span.parent_id)}
        for call in calls:
            if not call.told and call.span.span_id not in waiting:
                yield call.span, now - call.heard_at

    def told(self, span_id: str) -> None:
        """Mark the span as told of, so that it is not told of again."""
        self._open[span_id].told = True

    def hear(self, span_id: str | None, at: int) -> None:
        """Note that something went on inside a span; one that is not open is ignored."""
        if span_id not in self._open:
            return
        for around in self._around(span_id):
            around.heard_at = max(around.heard_at, at)

    def _around(self, span_id: str | None) -> Iterator[_Open]:
        """Yield the open span of this id and those around it, from the inside out."""
        for _ in range(_MAX_DEPTH):
            around = self._open.get(span_id or "")
            if around is None:
                return
            yield around
            span_id = around.span.parent_id
