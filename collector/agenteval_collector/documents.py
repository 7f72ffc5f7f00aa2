"""What is read from telemetry and found by evaluators, as the JSON documents of docs/api.md."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from agenteval_collector.pipeline import Document
from otel_agenteval.model import ToolCall, Trace
from otel_agenteval.outcome import Status


def trace_document(trace: Trace, *, revision: int, complete: bool) -> Document:
    """A trace without what changes later: its status and outcomes are added by `with_outcomes`."""
    return {
        "trace_id": trace.trace_id,
        "session_id": trace.session_id or trace.trace_id,
        "user_id": trace.user_id,
        "service": trace.service,
        "agent": trace.agent,
        "agents": list(trace.agents),
        "input": trace.input,
        "output": trace.output,
        "turns": [
            {
                "input": turn.input,
                "output": turn.output,
                "tools_called": [_tool_call(call) for call in turn.tool_calls],
                "error": turn.error,
            }
            for turn in trace.turns
        ],
        "complete": complete,
        "partial": trace.partial,
        "revision": revision,
        "status": "running",
        "started_at": rfc3339(trace.started_at),
        "ended_at": rfc3339(trace.ended_at),
        "span_count": trace.span_count,
        "tools_called": [_tool_call(call) for call in trace.tool_calls],
        "available_tools": [{"name": tool.name} for tool in trace.available_tools],
        "model_calls": len(trace.model_calls),
        "outcomes": [],
    }


def with_outcomes(document: Document, outcomes: list[Document]) -> Document:
    """The document of a complete trace with its outcomes and the status that follows from them."""
    return {**document, "status": trace_status(outcome["status"] for outcome in outcomes), "outcomes": outcomes}


def trace_status(statuses: Iterable[str]) -> str:
    """The status of a complete trace: pending while an outcome is, else the best that any outcome reached."""
    seen = set(statuses)
    for status in (Status.PENDING, Status.SCORED, Status.FAILED):
        if status in seen:
            return str(status)
    return "unscored"


def outcome_document(row: Mapping[str, Any]) -> Document:
    """An outcome, from the columns of the store."""
    return {
        "name": row["name"],
        "status": row["status"],
        "score": row["score"],
        "success": row["success"],
        "threshold": row["threshold"],
        "reason": row["reason"],
        "method": row["method"],
        "coverage": row["coverage"],
        "evaluator_version": row["version"],
        "model": row["model"],
        "metadata": json.loads(row["metadata"]),
    }


def rfc3339(nanoseconds: int | None) -> str | None:
    """A time as RFC 3339 in UTC with microseconds; None for none and for what no calendar can hold."""
    if not nanoseconds:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.replace(microsecond=rest // 1000).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _tool_call(call: ToolCall) -> Document:
    return {"name": call.name, "arguments": call.arguments, "result": call.result, "error": call.error}
