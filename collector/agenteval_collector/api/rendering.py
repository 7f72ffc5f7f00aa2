"""Make the documents of traces: from the view of a trace, its outcomes, its findings, its labels."""

from collections.abc import Iterable, Sequence
from typing import Final

from agenteval_collector.api.documents import (
    JUDGE_TROUBLE,
    CallDocument,
    ClosingDocument,
    ExchangeDocument,
    FindingDocument,
    FoundDocument,
    LabelDocument,
    OpenSpanDocument,
    OutcomeDocument,
    TraceDocument,
    TraceStatus,
    TurnDocument,
    Worst,
)
from agenteval_collector.model.assembled import Closing
from agenteval_collector.model.found import Found
from agenteval_collector.model.judging import Exchange, waits_for_judge
from agenteval_collector.model.reports import Label
from agenteval_collector.model.running import OpenSpan
from agenteval_collector.model.trace_view import CallView, TraceView, TurnView
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.outcome import Evaluation, Failure, Score, Status

NOTHING_FOUND: Final = Found((), dict.fromkeys(Severity, 0))


def trace_document(
    view: TraceView,
    outcomes: Sequence[OutcomeDocument] = (),
    labels: Sequence[Label] = (),
    found: Found = NOTHING_FOUND,
) -> TraceDocument:
    """A trace; its status follows from its outcomes once it is complete."""
    turns, closing, seen = [_turn(turn) for turn in view.turns], view.closing, view.seen
    return {
        "trace_id": view.trace_id,
        "session_id": view.session_id,
        "user_id": view.user_id,
        "service": view.service,
        "agent": view.agents[0] if view.agents else None,
        "agents": list(view.agents),
        "input": view.turns[0].input if view.turns else None,
        "output": view.turns[-1].output if view.turns else None,
        "turns": turns,
        "complete": view.complete,
        "partial": view.partial,
        "closing": None if closing is None else _closing(closing),
        "waits_for": list(view.waits_for),
        "revision": view.revision,
        "status": trace_status(outcome["status"] for outcome in outcomes) if view.complete else "running",
        "started_at": rfc3339(view.started_at),
        "ended_at": rfc3339(view.ended_at),
        "span_count": view.span_count,
        "tools_called": [call for turn in turns for call in turn["tools_called"]],
        "available_tools": [{"name": name} for name in view.available_tools],
        "model_calls": view.model_calls,
        "outcomes": list(outcomes),
        "labels": [label_document(label) for label in labels],
        **found_document(found),
        "seen": {
            "answers": seen.answers,
            "arguments": seen.arguments,
            "results": seen.results,
            "finish_reasons": seen.finish_reasons,
            "history": seen.history,
        },
        "open_spans": open_span_documents(view.open_spans),
        "status_reason": view.status_reason,
        "names_session": view.names_session,
        "continues_turn": view.continues_turn,
        "turn_goes_on": view.turn_goes_on,
    }


def trace_status(statuses: Iterable[str]) -> TraceStatus:
    """The status of a complete trace: pending while an outcome is, else the best that any outcome reached."""
    seen = set(statuses)
    if Status.PENDING in seen:
        return "pending"
    if Status.SCORED in seen:
        return "scored"
    return "failed" if Status.FAILED in seen else "unscored"


def outcome_document(evaluation: Evaluation, trouble: str | None = None) -> OutcomeDocument:
    """An outcome; one that waits for the judge, or rests on traces that do, says what is wrong with the judge now."""
    outcome = evaluation.outcome
    reason, metadata = outcome.reason, dict(outcome.metadata)
    if trouble is not None and waits_for_judge(outcome):
        reason, metadata = f"{reason}; {trouble}", {**metadata, JUDGE_TROUBLE: trouble}
    return {
        "name": evaluation.name,
        "status": outcome.status.value,
        "score": outcome.value if isinstance(outcome, Score) else None,
        "success": evaluation.success,
        "threshold": evaluation.threshold,
        "reason": reason,
        "error_type": outcome.error_type if isinstance(outcome, Failure) else None,
        "method": evaluation.method.value,
        "coverage": outcome.coverage,
        "evaluator_version": evaluation.version,
        "model": evaluation.model,
        "metadata": metadata,
    }


def finding_document(finding: Finding) -> FindingDocument:
    """A finding."""
    return {
        "kind": finding.kind,
        "severity": finding.severity.value,
        "turn": finding.turn,
        "span_id": finding.span_id,
        "agent": finding.agent,
        "tool": finding.tool,
        "reason": finding.reason,
        "metadata": dict(finding.metadata),
        "found_at": rfc3339(finding.found_at),
        "mode": None if finding.mode is None else finding.mode.value,
        "trace_id": finding.trace_id,
    }


def found_document(found: Found) -> FoundDocument:
    """The fields that say what was found in a trace or a session."""
    worst: Worst = "none"
    for severity in reversed(Severity):
        if found.counts[severity]:
            worst = severity.value
    return {
        "findings": [finding_document(finding) for finding in found.findings],
        "findings_count": {
            "error": found.counts[Severity.ERROR],
            "warning": found.counts[Severity.WARNING],
            "info": found.counts[Severity.INFO],
        },
        "worst": worst,
    }


def label_document(label: Label) -> LabelDocument:
    """A label."""
    return {
        "name": label.name,
        "value": label.value,
        "author": label.author,
        "note": label.note,
        "labelled_at": rfc3339(label.labelled_at),
    }


def exchange_document(exchange: Exchange) -> ExchangeDocument:
    """A question to the judge with its answer."""
    return {
        "question": exchange.question,
        "version": exchange.version,
        "model": exchange.model,
        "asked_at": rfc3339(exchange.asked_at),
        "instructions": exchange.instructions,
        "data": exchange.data,
        "reply": exchange.reply,
        "problem": exchange.problem,
        "input_tokens": exchange.input_tokens,
        "output_tokens": exchange.output_tokens,
        "usd": exchange.usd,
        "seconds": exchange.seconds,
        "cached": exchange.cached,
    }


def open_span_documents(spans: Iterable[OpenSpan]) -> list[OpenSpanDocument]:
    """Spans that have begun and not ended."""
    return [{"span_id": span.span_id, "name": span.name, "started_at": rfc3339(span.started_at)} for span in spans]


def _closing(closing: Closing) -> ClosingDocument:
    return {"by": closing.by.value, "reason": closing.reason, "senders": list(closing.senders)}


def _turn(turn: TurnView) -> TurnDocument:
    return {
        "input": turn.input,
        "output": turn.output,
        "tools_called": [_call(call) for call in turn.tool_calls],
        "error": turn.error,
    }


def _call(call: CallView) -> CallDocument:
    return {
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "error": call.error,
        "span_id": call.span_id,
    }
