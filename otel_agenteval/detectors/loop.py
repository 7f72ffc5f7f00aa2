"""A loop as a finding."""

from collections.abc import Mapping

from otel_agenteval.finding import Finding, Mode, severity_of
from otel_agenteval.model import Json


def loop(
    kind: str, mode: Mode, span_id: str | None, reason: str, metadata: Mapping[str, Json], doubt: str | None = None
) -> Finding | None:
    """Make a loop as its rule knows it, without trace, session and agent. None where the rules do not look for it.
    `metadata` holds what it rests on. A loop in `doubt` is only observed, and says why."""
    if mode is Mode.OFF:
        return None
    if doubt is not None:
        mode, reason, metadata = Mode.OBSERVE, f"{reason}; {doubt}", {**metadata, "doubt": doubt}
    tool = metadata.get("tool")
    return Finding(
        kind=str(kind),
        severity=severity_of(mode),
        mode=mode,
        span_id=span_id,
        reason=reason,
        tool=tool if isinstance(tool, str) else None,
        metadata=metadata,
        trace_id="",
        session_id="",
    )
