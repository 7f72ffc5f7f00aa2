"""Marks on spans that the processor in the agent has watched itself, and the loops it found."""

from agenteval_collector.model.telemetry import Origin
from otel_agenteval.semconv import AGENTEVAL_DETECTORS, AGENTEVAL_FINDINGS

_WATCHED = AGENTEVAL_DETECTORS.encode()
_FOUND = AGENTEVAL_FINDINGS.encode()


def is_watched(span: bytes, origin: Origin) -> bool:
    """Return whether the detectors ran over this serialized span where it ended. They do not run again here.

    Searching bytes is far cheaper than walking attributes. Where content quotes the name, the detectors skip its span;
    nothing else is lost.
    """
    return _WATCHED in origin.resource or _WATCHED in span


def carries_findings(span: bytes) -> bool:
    """Return whether the span may carry findings."""
    return _FOUND in span
