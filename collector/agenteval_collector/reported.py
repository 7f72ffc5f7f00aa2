"""Verdicts that processes have reported: on their spans, or ahead of them. What they say is hostile input."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otel_agenteval.detectors import Kind, Mode, Verdict
from otel_agenteval.model import Json
from otel_agenteval.semconv import AGENTEVAL_VERDICTS

REPEATED_ANSWER: Final = "repeated_answer"
"""The kind of loop that shows across the traces of a session."""

KINDS: Final = frozenset((*Kind, REPEATED_ANSWER))

MAX_REASON: Final = 1000
MAX_NAME: Final = 200
MAX_METADATA: Final = 8 * 1024
"""Characters that are kept of each; longer metadata is not."""

MAX_ON_SPAN: Final = 16
"""Verdicts that are read from one span."""
MAX_JSON: Final = 256 * 1024
"""Characters of JSON that a span may say them in."""

MODES: Final = {"observe": Mode.OBSERVE, "alarm": Mode.ALARM}


def verdicts_on(
    attributes: Mapping[str, Json], *, trace_id: str, span_id: str, session_id: str | None
) -> Iterator[Verdict]:
    """The verdicts that a span with these attributes carries; what is none is passed over."""
    text = attributes.get(AGENTEVAL_VERDICTS)
    try:
        listed = json.loads(text) if isinstance(text, str) and len(text) <= MAX_JSON else []
    except (ValueError, RecursionError):
        return
    for said in listed[:MAX_ON_SPAN] if isinstance(listed, list) else []:
        if isinstance(said, dict):
            verdict = verdict_of(said, trace_id=trace_id, span_id=span_id, session_id=session_id or trace_id)
            if verdict is not None:
                yield verdict


def agent_of(verdict: Verdict) -> str | None:
    """The agent that the verdict is on, as far as its metadata names one."""
    agent = verdict.metadata.get("agent")
    return agent if isinstance(agent, str) else None


def verdict_of(said: Mapping[str, Any], *, trace_id: str, span_id: str, session_id: str) -> Verdict | None:
    """The verdict with this `name`, `kind`, `mode`, `reason` and `metadata`; None where that is none."""
    kind, mode = said.get("kind"), said.get("mode")
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(mode, str) or mode not in MODES:
        return None
    return Verdict(
        name=_text(said.get("name"), MAX_NAME) or "loop_detection",
        kind=kind,
        mode=MODES[mode],
        session_id=session_id,
        trace_id=trace_id,
        span_id=span_id,
        reason=_text(said.get("reason"), MAX_REASON),
        metadata=_metadata(said.get("metadata")),
    )


def _text(value: Any, limit: int) -> str:
    # JSON may hold lone surrogates, which UTF-8 cannot.
    return value[:limit].encode(errors="replace").decode() if isinstance(value, str) else ""


def _metadata(value: Any) -> dict[str, Json]:
    try:
        written = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) and len(written) <= MAX_METADATA else {}
