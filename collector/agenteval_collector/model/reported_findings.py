"""Read the findings that agents' processes report, on their spans or before them. The input may be hostile."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding, Mode, severity_of
from otel_agenteval.internal.text import storable
from otel_agenteval.model import Json
from otel_agenteval.semconv import AGENTEVAL_FINDINGS

MAX_REASON: Final = 1000
MAX_NAME: Final = 200
MAX_METADATA: Final = 8 * 1024
"""Characters of a finding's metadata. Longer metadata is not kept."""

MAX_ON_SPAN: Final = 16
"""Findings that are read from one span."""
MAX_JSON: Final = 256 * 1024
"""Characters of JSON on a span that are read as findings."""

MODES: Final = {"observe": Mode.OBSERVE, "alarm": Mode.ALARM}


def findings_on(
    attributes: Mapping[str, Json], *, trace_id: str, span_id: str, session_id: str | None, found_at: int
) -> Iterator[Finding]:
    """Yield the findings in these attributes of a span. Anything else is skipped."""
    text = attributes.get(AGENTEVAL_FINDINGS)
    try:
        listed = json.loads(text) if isinstance(text, str) and len(text) <= MAX_JSON else []
    except (ValueError, RecursionError):
        return
    for reported in listed[:MAX_ON_SPAN] if isinstance(listed, list) else []:
        if isinstance(reported, dict):
            finding = reported_finding(
                reported, trace_id=trace_id, span_id=span_id, session_id=session_id or trace_id, found_at=found_at
            )
            if finding is not None:
                yield finding


def reported_finding(
    reported: Mapping[str, Any], *, trace_id: str, span_id: str, session_id: str, found_at: int
) -> Finding | None:
    """Return the loop that `reported` describes by `kind`, `mode`, `reason`, `agent`, `tool` and `metadata`; None if it
    describes none."""
    kind, mode = reported.get("kind"), reported.get("mode")
    if not isinstance(kind, str) or kind not in LOOP_KINDS or not isinstance(mode, str) or mode not in MODES:
        return None
    return Finding(
        kind=kind,
        severity=severity_of(MODES[mode]),
        mode=MODES[mode],
        session_id=session_id,
        trace_id=trace_id,
        span_id=span_id,
        agent=_text(reported.get("agent"), MAX_NAME) or None,
        tool=_text(reported.get("tool"), MAX_NAME) or None,
        reason=_text(reported.get("reason"), MAX_REASON),
        metadata=_metadata(reported.get("metadata")),
        found_at=found_at,
    )


def _text(value: Any, limit: int) -> str:
    return storable(value[:limit]) if isinstance(value, str) else ""


def _metadata(value: Any) -> dict[str, Json]:
    try:
        text = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) and len(text) <= MAX_METADATA else {}
