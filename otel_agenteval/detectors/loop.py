"""A loop as a finding."""

from collections.abc import Mapping

from otel_agenteval.detectors.rules import Kind
from otel_agenteval.finding import Finding, Mode, severity_of
from otel_agenteval.model import Json


def loop(*, kind: Kind, mode: Mode, span_id: str, reason: str, metadata: Mapping[str, Json]) -> Finding:
    """A loop as a rule knows it: `Detectors` adds the trace, the session and the agent.

    `metadata` holds what it rests on: `tool` or `model`, `repetitions`, `span_ids` (the newest, at most 10), and what
    else belongs to the kind.
    """
    tool = metadata.get("tool")
    return Finding(
        kind=kind.value,
        severity=severity_of(mode),
        mode=mode,
        span_id=span_id,
        reason=reason,
        tool=tool if isinstance(tool, str) else None,
        metadata=metadata,
        trace_id="",
        session_id="",
    )
