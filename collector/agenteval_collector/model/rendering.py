"""Make the JSON documents of docs/api.md from traces, findings and outcomes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from agenteval_collector.model.assembled import Closing, Death
from agenteval_collector.model.documents import Document
from agenteval_collector.model.judging import PENDING_TRACES, Exchange
from otel_agenteval.finding import Seen, Severity
from otel_agenteval.metrics import Agreement, Half
from otel_agenteval.model import ToolCall, Trace
from otel_agenteval.outcome import Status

NOTHING_SEEN = Seen()

OF_REVISION = ("complete", "closing", "revision", "span_count", "seen", "open_spans", "status_reason")
"""Fields of a trace's document in which revisions may differ that say the same."""

JUDGE_TROUBLE = "judge_trouble"
"""In the metadata of an outcome that waits for the judge: what is wrong with it now."""


def trace_document(
    trace: Trace,
    *,
    revision: int,
    complete: bool,
    session_id: str | None = None,
    death: Death | None = None,
    closing: Closing | None = None,
    waits_for: Sequence[str] = (),
    seen: Seen = NOTHING_SEEN,
) -> Document:
    """A trace without what changes later: its findings, and its status and outcomes, which `with_outcomes` adds.

    `session_id` is the session that it is in, by default the one that it names, else itself.
    """
    return {
        "trace_id": trace.trace_id,
        "session_id": session_id or trace.session_id or trace.trace_id,
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
        "closing": closing_document(closing),
        "waits_for": list(waits_for),
        "revision": revision,
        "status": "running",
        "started_at": rfc3339(trace.started_at),
        "ended_at": rfc3339(trace.ended_at),
        "span_count": trace.span_count,
        "tools_called": [_tool_call(call) for call in trace.tool_calls],
        "available_tools": [{"name": tool.name} for tool in trace.available_tools],
        "model_calls": len(trace.model_calls),
        "outcomes": [],
        "labels": [],
        **found_document([], dict.fromkeys(Severity, 0)),
        "seen": asdict(seen),
        "open_spans": [] if death is None else list(death.open_spans),
        "status_reason": None if death is None else death.reason,
        "names_session": trace.session_id is not None,
        "continues_turn": trace.continues_turn,
        "turn_goes_on": trace.turn_goes_on,
        "results_alone": [_result(each) for each in trace.results_alone],
    }


def without_copies(document: Document) -> Document:
    """A trace's document without what its turns say already; `with_copies` puts it back."""
    return {**document, "tools_called": None}


def with_copies(document: Document) -> Document:
    """A trace's document as it was before `without_copies`."""
    return {**document, "tools_called": [call for turn in document["turns"] for call in turn["tools_called"]]}


def closing_document(closing: Closing | None) -> Document | None:
    """The field `closing` of a trace's document: why the trace was taken for complete."""
    if closing is None:
        return None
    return {"by": closing.by, "reason": closing.reason, "senders": list(closing.senders)}


def with_outcomes(document: Document, outcomes: list[Document], labels: list[Document]) -> Document:
    """The document of a complete trace with its outcomes, the status that follows from them, and its labels."""
    status = trace_status(outcome["status"] for outcome in outcomes)
    return {**document, "status": status, "outcomes": outcomes, "labels": labels}


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
        "error_type": row["error_type"],
        "method": row["method"],
        "coverage": row["coverage"],
        "evaluator_version": row["version"],
        "model": row["model"],
        "metadata": json.loads(row["metadata"]),
    }


def with_trouble(outcome: Document, trouble: str | None) -> Document:
    """An outcome that waits for the judge, or rests on traces that do, with what is wrong with the judge now."""
    waits = outcome["status"] == Status.PENDING or PENDING_TRACES in outcome["metadata"]
    if trouble is None or not waits:
        return outcome
    metadata = {**outcome["metadata"], JUDGE_TROUBLE: trouble}
    return {**outcome, "reason": f"{outcome['reason']}; {trouble}", "metadata": metadata}


def judge_trouble(sessions: Iterable[Document]) -> str | None:
    """The trouble with the judge that a score of these waits for; None where there is none, or nothing waits."""
    outcomes = (outcome for session in sessions for outcome in session["outcomes"])
    return next((each["metadata"][JUDGE_TROUBLE] for each in outcomes if JUDGE_TROUBLE in each["metadata"]), None)


def finding_document(row: Mapping[Any, Any]) -> Document:
    """A finding, from the columns of the store."""
    return {
        "kind": row["kind"],
        "severity": row["severity"],
        "turn": row["turn"],
        "span_id": row["span_id"] or None,
        "agent": row["agent"],
        "tool": row["tool"],
        "reason": row["reason"],
        "metadata": json.loads(row["metadata"]),
        "found_at": rfc3339(row["found_at"]),
        "mode": row["mode"],
        "trace_id": row["trace_id"],
    }


def found_document(findings: list[Document], counts: Mapping[Severity, int]) -> Document:
    """The fields that say what was found in a trace or a session: some of it, and how many there are by severity."""
    worst = next((severity for severity in Severity if counts[severity]), None)
    return {
        "findings": findings,
        "findings_count": {severity.value: counts[severity] for severity in Severity},
        "worst": "none" if worst is None else worst.value,
    }


def label_document(row: Mapping[str, Any]) -> Document:
    """A label, from the columns of the store."""
    return {
        "name": row["name"],
        "value": row["value"],
        "author": row["author"] or None,
        "note": row["note"],
        "labelled_at": rfc3339(row["labelled_at"]),
    }


def exchange_document(exchange: Exchange) -> Document:
    """A question to the judge with its answer."""
    return {**asdict(exchange), "asked_at": rfc3339(exchange.asked_at)}


def agreement_document(found: Agreement, *, name: str, method: str, version: str, model: str | None) -> Document:
    """The agreement of an evaluator's scores with labels."""
    halves = found.halves or (None, None)
    return {
        "name": name,
        "method": method,
        "evaluator_version": version,
        "model": model,
        "labels": found.n,
        "metrics": found.metrics,
        "intervals": {name: list(interval) for name, interval in found.intervals.items()},
        "reasons": found.reasons,
        **{name: _half(half) for name, half in zip(("older", "newer"), halves, strict=True)},
    }


def _half(half: Half | None) -> Document | None:
    if half is None:
        return None
    return {
        "labels": half.n,
        "first": rfc3339(half.first),
        "last": rfc3339(half.last),
        "mean_score": half.mean_score,
        "mean_label": half.mean_label,
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
    return {
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "error": call.error,
        "span_id": call.span_id,
        "call_id": call.call_id,
    }


def _result(result: ToolCall) -> Document:
    """A result of a call that is not known; whether its words tell of an error depends on the tool."""
    failed = result.error is not None and not result.is_error_read
    return {"call_id": result.call_id, "result": result.result, "failed": failed}
