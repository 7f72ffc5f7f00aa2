"""Which spans the processor in the agent has watched itself, and what it found."""

from agenteval_collector.model.telemetry import Origin
from otel_agenteval.semconv import AGENTEVAL_DETECTORS, AGENTEVAL_FINDINGS

_WATCHED = AGENTEVAL_DETECTORS.encode()
_FOUND = AGENTEVAL_FINDINGS.encode()


def is_watched(span: bytes, origin: Origin) -> bool:
    """Whether the detectors ran over this serialized span where it ended: here they do not run again.

    Searching bytes is far cheaper than walking attributes. Content that quotes the name costs the span's trace what
    the detectors would say of it, and nothing else.
    """
    return _WATCHED in origin.resource or _WATCHED in span


def carries_findings(span: bytes) -> bool:
    """Whether the span may carry findings."""
    return _FOUND in span
