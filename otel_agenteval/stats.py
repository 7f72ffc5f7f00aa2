"""The statistics of a processor: what has become of the spans that it was given."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts since the processor was made, or since the fork that made this process.

    Every span that was handed over is exported, rejected, dropped or still buffered.
    """

    handed_over: int
    """Sampled spans that ended."""
    exported: int
    """Spans that the collector has taken."""
    rejected: int
    """Spans that the collector has answered for and refused (`partial_success`)."""
    dropped: Mapping[str, int]
    """Spans that were given up, by reason: buffer_full, shutdown, refused, too_large, not_encodable, internal_error."""
    buffered: int
    """Spans that the collector has not answered for yet, also those of the request in flight."""
    buffered_bytes: int
    """The estimated bytes in memory of the buffered spans."""
    reports: Mapping[str, int]
    """Reports of runs, and feedback: waiting, delivered, or dropped (queue_full, shutdown, refused)."""
    verdicts: int
    """Different verdicts: loops found here, and loops, other findings and low scores that the collector sent."""
    unhandled_verdicts: int
    """Verdicts that `on_verdict` did not get, because it was too slow."""
    unwatched: int
    """Starts and ends of spans that no detector looked at, because too many came at once."""
    unannounced: int
    """Starts and hangs that the collector was not told of, because too many waited, or because it refused them."""
    evicted: int
    """Open spans that were forgotten because too many were open. They are exported without a completion marker."""
    lost_attributes: int
    """Attributes that were left out because OTLP has no form for their value."""
    faults: int
    """Exceptions by bugs of ours, which were kept from the agent. The first one was logged."""
