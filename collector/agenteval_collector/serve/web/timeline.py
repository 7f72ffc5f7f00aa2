"""The traces of a session on a time axis that cuts long pauses short. The functions are pure."""

from collections.abc import Sequence
from datetime import datetime
from statistics import median
from typing import Final, NamedTuple

from agenteval_collector.serve.api.trace_documents import TraceDocument

WIDTH: Final = 1000.0
"""Width of the axis, in its own units."""
LEAST: Final = 4.0
"""Width of the shortest bar, so that a trace that takes no time can still be seen."""
PAUSE: Final = 3.0
"""The longest pause on the axis, in median lengths of a trace. Longer pauses are cut to this."""


class PlacedTrace(NamedTuple):
    """A trace on the time axis. `pause` is the length in seconds of a pause before it that was cut short, else None."""

    trace: TraceDocument
    pause: float | None
    x: float
    width: float


def placed_traces(traces: Sequence[TraceDocument]) -> list[PlacedTrace]:
    """Place the traces, in order of their start, on the axis. Leave out traces without a time."""
    spans = [(trace, *span) for trace in traces if (span := _span(trace)) is not None]
    if not spans:
        return []
    # A pause of up to a second is never cut.
    longest = max(1.0, PAUSE * median(ended - started for _, started, ended in spans))
    begun = until = spans[0][1]
    cut = 0.0
    rows = []
    for trace, started, ended in spans:
        pause = started - until
        # Every later trace moves left by all that was cut so far.
        cut += max(0.0, pause - longest)
        rows.append((trace, pause if pause > longest else None, started - begun - cut, ended - started))
        # Traces may overlap: a pause begins when none of the earlier traces runs any more.
        until = max(until, ended)
    scale = WIDTH / max(until - begun - cut, 1e-3)
    return [
        PlacedTrace(trace, pause, min(x * scale, WIDTH - LEAST), min(max(width * scale, LEAST), WIDTH))
        for trace, pause, x, width in rows
    ]


def _span(trace: TraceDocument) -> tuple[float, float] | None:
    if trace["started_at"] is None:
        return None
    started = datetime.fromisoformat(trace["started_at"]).timestamp()
    ended = started if trace["ended_at"] is None else datetime.fromisoformat(trace["ended_at"]).timestamp()
    return started, max(started, ended)
