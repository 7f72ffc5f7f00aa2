"""Make the documents of traces and sessions, from what is stored and what is running."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agenteval_collector.figures.cause import DecisiveStep, cause_of_trace
from agenteval_collector.model.judge_jobs import waits_for_judge
from agenteval_collector.model.labels import Label
from agenteval_collector.model.running_traces import RunningTrace, UnendedSpan
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.model.sessions import SessionState
from agenteval_collector.model.shown_findings import ShownFindings
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.model.usage import UsageTotals
from agenteval_collector.serve.api import trace_documents
from agenteval_collector.serve.api.document import document
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.outcome import Evaluation, Failure, Score, Status

NOTHING_FOUND: Final = ShownFindings((), dict.fromkeys(Severity, 0))


def trace_document(
    view: TraceView,
    outcomes: Sequence[trace_documents.OutcomeDocument] = (),
    labels: Sequence[Label] = (),
    findings: ShownFindings = NOTHING_FOUND,
) -> trace_documents.TraceDocument:
    """Return the document of a trace. Its status follows from its outcomes once it is complete."""
    calls = [[document(trace_documents.CallDocument, call) for call in turn.tool_calls] for turn in view.turns]
    return document(
        trace_documents.TraceDocument,
        view,
        agent=view.agents[0] if view.agents else None,
        input=view.turns[0].input if view.turns else None,
        output=view.turns[-1].output if view.turns else None,
        turns=[
            document(trace_documents.TurnDocument, turn, tools_called=called)
            for turn, called in zip(view.turns, calls, strict=True)
            if not turn.is_orphan
        ],
        closing=None if view.closing is None else document(trace_documents.ClosingDocument, view.closing),
        status=trace_status(outcome["status"] for outcome in outcomes) if view.complete else "running",
        tools_called=[call for called in calls for call in called],
        effort=None if view.effort is None else document(trace_documents.EffortDocument, view.effort.rounded),
        usage=None if view.effort is None else usage_document(view.effort.usage),
        available_tools=[{"name": name} for name in view.available_tools],
        outcomes=list(outcomes),
        labels=[document(trace_documents.LabelDocument, label) for label in labels],
        seen=document(trace_documents.SeenDocument, view.seen),
        open_spans=open_span_documents(view.open_spans),
        not_understood=[document(trace_documents.UnknownSpansDocument, spans) for spans in view.not_understood],
        cause=cause_document(trace_cause(view, outcomes, findings)),
        **found_document(findings),
    )


def trace_cause(
    view: TraceView, outcomes: Iterable[trace_documents.OutcomeDocument], findings: ShownFindings
) -> DecisiveStep | None:
    """Return the first decisive step of a trace; None if it is not flagged, or if no step shows what went wrong."""
    flagged = findings.counts[Severity.ERROR] or any(outcome["success"] is False for outcome in outcomes)
    return cause_of_trace(view, findings.findings) if flagged else None


def cause_document(cause: DecisiveStep | None) -> trace_documents.CauseDocument | None:
    """Return the document of a first decisive step."""
    return None if cause is None else document(trace_documents.CauseDocument, cause)


def usage_document(usage: UsageTotals) -> trace_documents.UsageDocument:
    """Return the document of tokens and money."""
    return document(trace_documents.UsageDocument, usage, other=dict(usage.other))


def trace_status(statuses: Iterable[str]) -> trace_documents.TraceStatus:
    """Return the status of a complete trace: pending while any outcome is, else the best status of its outcomes."""
    names = set(statuses)
    if Status.PENDING in names:
        return "pending"
    if Status.SCORED in names:
        return "scored"
    return "failed" if Status.FAILED in names else "unscored"


def outcome_document(evaluation: Evaluation, trouble: str | None = None) -> trace_documents.OutcomeDocument:
    """Return the document of an outcome. If it waits for the judge, or rests on traces that do, it names the judge's
    `trouble`."""
    outcome = evaluation.outcome
    reason, metadata = outcome.reason, outcome.metadata
    if trouble is not None and waits_for_judge(outcome):
        reason, metadata = f"{reason}; {trouble}", {**metadata, trace_documents.JUDGE_TROUBLE: trouble}
    return document(
        trace_documents.OutcomeDocument,
        evaluation,
        status=outcome.status,
        score=outcome.value if isinstance(outcome, Score) else None,
        reason=reason,
        error_type=outcome.error_type if isinstance(outcome, Failure) else None,
        coverage=outcome.coverage,
        evaluator_version=evaluation.version,
        metadata=metadata,
    )


def found_document(findings: ShownFindings) -> trace_documents.FoundDocument:
    """Return the fields about findings of a trace or a session."""
    return {
        "findings": [document(trace_documents.FindingDocument, finding) for finding in findings.findings],
        "findings_count": {
            "error": findings.counts[Severity.ERROR],
            "warning": findings.counts[Severity.WARNING],
            "info": findings.counts[Severity.INFO],
        },
        "worst": next((severity.value for severity in Severity if findings.counts[severity]), "none"),
    }


def open_span_documents(spans: Iterable[UnendedSpan]) -> list[trace_documents.OpenSpanDocument]:
    """Return spans that have begun and not ended."""
    return [document(trace_documents.OpenSpanDocument, span) for span in spans]


NOT_TOLD_AGAIN = "no process has told of it since this collector was started, and none of its spans has arrived"
"""The status reason of a trace that is known by its findings alone."""


def by_session(running: Iterable[RunningTrace]) -> dict[str, list[RunningTrace]]:
    """Group running traces by session, each group by start."""
    found: dict[str, list[RunningTrace]] = {}
    for trace in sorted(running, key=lambda trace: trace.started_at):
        found.setdefault(trace.session_id, []).append(trace)
    return found


def trace_ids(running: Mapping[str, Sequence[RunningTrace]]) -> dict[str, list[str]]:
    """Return the ids of running traces, by session."""
    return {session_id: [trace.trace_id for trace in traces] for session_id, traces in running.items()}


def running_fields(
    session_id: str, running: Sequence[RunningTrace], findings: ShownFindings, now: int
) -> trace_documents.SessionFields:
    """Return the fields of a session without a complete trace."""
    as_if_stored = SessionState(
        session_id=session_id,
        user_id=next((trace.user_id for trace in running if trace.user_id), None),
        agent=None,
        service=next((trace.service for trace in running if trace.service), None),
        services=list(dict.fromkeys(trace.service for trace in running if trace.service)),
        started_at=running[0].started_at,
        last_seen_at=now,
        trace_count=0,
        is_blind=False,
    )
    return session_fields(as_if_stored, running, findings)


def session_fields(
    session: SessionState,
    running: Sequence[RunningTrace],
    findings: ShownFindings,
    *,
    status: trace_documents.SessionStatus = "running",
    death: str | None = None,
    outcomes: Sequence[trace_documents.OutcomeDocument] = (),
    flagged_traces: Sequence[str] = (),
    judged_failures: int = 0,
) -> trace_documents.SessionFields:
    """Return the fields of a session, in a listing and by itself.

    `status` applies while none of its traces runs. `death` says why an agent in it has ended.
    """
    stopped = (f"trace {trace.trace_id}: {trace.stopped}" for trace in running if trace.stopped)
    return document(
        trace_documents.SessionFields,
        session,
        # The spans that have arrived may name no agent while those that still run do.
        agent=session.agent or next((trace.agent for trace in running if trace.agent), None),
        status="running" if running else status,
        status_reason=next(stopped, death),
        effort=document(trace_documents.EffortDocument, session.effort.rounded),
        usage=usage_document(session.effort.usage),
        blind=session.is_blind,
        running_traces=[trace.trace_id for trace in running],
        outcomes=list(outcomes),
        flagged_traces=list(flagged_traces),
        judged_failures=judged_failures,
        **found_document(findings),
    )


def death_reasons(deaths: Iterable[tuple[str, str, str]], running: Iterable[RunningTrace]) -> dict[str, str]:
    """Return, by session, why the newest trace in which an agent died has ended.

    A trace that goes on is left out: its process was heard of again.
    """
    going_on = {trace.trace_id for trace in running if trace.stopped is None}
    return {
        session_id: f"trace {trace_id}: {reason}" for session_id, trace_id, reason in deaths if trace_id not in going_on
    }


def told_view(finding: Finding) -> TraceView:
    """Return a view of a trace of which only findings have arrived, from the first of them."""
    return TraceView(
        trace_id=finding.trace_id,
        session_id=finding.session_id,
        names_session=True,
        service=finding.service,
        agents=() if finding.agent is None else (finding.agent,),
        started_at=finding.found_at,
        ended_at=finding.found_at,
        revision=0,
        complete=False,
        status_reason=NOT_TOLD_AGAIN,
    )


def may_be_wanted(wanted: SessionFilter, running: Sequence[RunningTrace]) -> bool:
    """Return whether the filter may want a session that is not stored, judging by its running traces.

    Running traces have no version, no environment, no score and no text to search.
    """
    unknown = wanted.version, wanted.environment, wanted.below, wanted.text, wanted.until
    if any(value is not None for value in unknown):
        return False
    whose = {"agent": wanted.agent, "service": wanted.service, "user_id": wanted.user}
    return all(
        value is None or any(getattr(trace, name) == value for trace in running) for name, value in whose.items()
    )


def shows(item: trace_documents.SessionFields, wanted: SessionFilter) -> bool:
    """Return whether a session that is not stored has the wanted finding."""
    if wanted.finding is None and wanted.severity is None:
        return True
    return any(
        wanted.finding in (None, entry["kind"]) and wanted.severity in (None, entry["severity"])
        for entry in item["findings"]
    )
