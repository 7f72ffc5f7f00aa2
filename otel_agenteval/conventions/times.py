"""Repair the times of spans that cannot be right, so that no duration of ten years enters a sum.

What is wrong is known from when the spans were received, and from their parents. A time that may be right stays: clocks
differ, and recordings are sent again years later, or ahead of a clock that was set back.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from otel_agenteval.conventions.spans import SpanRecord

SECOND: Final = 10**9
_UNITS: Final = (10**3, 10**6, SECOND)
"""Nanoseconds of the units that times are written in by mistake: microseconds, milliseconds, seconds."""
_NEAR: Final = 30 * 86_400 * SECOND
"""A time in another unit is recognised if it is as near to the receipt as this."""
LONGEST: Final = 86_400 * SECOND
"""Nanoseconds that a span lasts at most. If it seems to last longer, its start is wrong."""
_BEFORE_PARENT: Final = SECOND
"""Nanoseconds by which a span may start before its parent: that much clocks differ."""
_REAL: Final = 10**17
"""A receipt before this (1973) is none: times of tests and examples are left alone."""


def repaired(spans: Sequence[SpanRecord], received_at: int) -> tuple[Sequence[SpanRecord], int]:
    """Return the spans with times that can be right, and the number of those that were repaired.

    - Times in another unit are taken for what they mean.
    - A span without a start, or with one a day before its end, starts with its parent, else lasts no time.
    - The spans of a process that start before their parents of another process start with these.

    `received_at` is in nanoseconds since the Unix epoch. Spans that are right stay the same objects.
    """
    if received_at < _REAL:
        return spans, 0
    starts = {span.span_id: span for span in spans}
    if all(map(_may_be_right, spans)) and not _starts_before_its_parent(spans, starts):
        return spans, 0
    in_unit = [_in_nanoseconds(span, received_at) for span in spans]
    starts = {span.span_id: span for span in in_unit}
    begun = [_with_start(span, starts.get(span.parent_id)) for span in in_unit]
    shift = _by_one_clock(begun)
    return shift, sum(before is not after for before, after in zip(spans, shift, strict=True))


def _may_be_right(span: SpanRecord) -> bool:
    return _REAL < span.started_at <= span.ended_at < span.started_at + LONGEST


def _starts_before_its_parent(spans: Sequence[SpanRecord], by_id: dict[str | None, SpanRecord]) -> bool:
    return any(
        parent is not None and span.started_at < parent.started_at - _BEFORE_PARENT
        for span in spans
        if span.parent_id is not None
        for parent in (by_id.get(span.parent_id),)
    )


def _in_nanoseconds(span: SpanRecord, received_at: int) -> SpanRecord:
    for unit in _UNITS:
        if span.ended_at and abs(span.ended_at * unit - received_at) < _NEAR:
            return replace(span, started_at=span.started_at * unit, ended_at=span.ended_at * unit)
    return span


def _with_start(span: SpanRecord, parent: SpanRecord | None) -> SpanRecord:
    if span.started_at > 0 and span.ended_at - span.started_at < LONGEST:
        return span
    is_known = parent is not None and 0 < parent.started_at <= span.ended_at
    start = parent.started_at if parent is not None and is_known else 0
    return replace(span, started_at=start if span.ended_at - start < LONGEST else span.ended_at)


def _by_one_clock(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Move the spans of each process by as much as its clock is behind. Spans of one process share their resource."""
    moved: dict[int, int] = {}
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        parent = by_id.get(span.parent_id) if span.parent_id is not None else None
        if parent is None or parent.resource is span.resource:
            continue
        own, others = moved.get(id(span.resource), 0), moved.get(id(parent.resource), 0)
        behind = parent.started_at + others - span.started_at - own
        if behind > _BEFORE_PARENT:
            moved[id(span.resource)] = own + behind
    if not moved:
        return list(spans)
    return [
        replace(span, started_at=span.started_at + shift, ended_at=span.ended_at + shift)
        if (shift := moved.get(id(span.resource), 0))
        else span
        for span in spans
    ]
