"""Numbers of spans that a processor was given, by what has become of them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts since the processor was made, or since the fork that made this process.

    Every span handed over is exported, rejected, dropped or still buffered.
    """

    handed_over: int
    """Sampled spans that ended, whatever came of them."""
    exported: int
    """Spans the collector acknowledged and took."""
    rejected: int
    """Spans the collector acknowledged and refused (`partial_success`)."""
    dropped: Mapping[str, int]
    """Spans given up, by reason: buffer_full, shutdown, refused, too_large, not_encodable, internal_error."""
    buffered: int
    """Spans not answered for yet, those of the request in flight included."""
    buffered_bytes: int
    """About what they hold in memory."""
    reports: Mapping[str, int]
    """Reports of runs, and feedback, by fate: waiting, delivered, or dropped (queue_full, shutdown, refused)."""
    verdicts: int
    """Loops found here, and what the collector told of: loops, and judged scores below their threshold."""
    unhandled_verdicts: int
    """Verdicts that `on_verdict` did not get, because it was too slow."""
    unwatched: int
    """Starts and ends of spans that were not looked at for loops, because too many came at once."""
    unannounced: int
    """Starts of spans, and hangs, that the collector was not told of, because too many waited or it refused them."""
    evicted: int
    """Open spans whose entry went because too many were open: exported without completion marker."""
    lost_attributes: int
    """Attributes left out because OTLP has no form for their value."""
    faults: int
    """Bugs of ours that were kept from the agent; the first was logged."""
