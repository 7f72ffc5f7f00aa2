"""Make the documents of traces: from the view of a trace, its outcomes, its findings, its labels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, cast

from agenteval_collector.api.documents import (
    JUDGE_TROUBLE,
    CallDocument,
    ClosingDocument,
    EffortDocument,
    FindingDocument,
    FoundDocument,
    LabelDocument,
    OpenSpanDocument,
    OutcomeDocument,
    SeenDocument,
    TraceDocument,
    TraceStatus,
    TurnDocument,
)
from agenteval_collector.model.judging import waits_for_judge
from agenteval_collector.model.reports import Label
from agenteval_collector.model.running import OpenSpan
from agenteval_collector.model.shown_findings import ShownFindings
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import Evaluation, Failure, Score, Status

NOTHING_FOUND: Final = ShownFindings((), dict.fromkeys(Severity, 0))

_PLAIN: Final = frozenset((str, int, float, bool))

Document = TypeVar("Document")


def document(kind: type[Document], source: object, /, **said: Any) -> Document:
    """Return the document of this kind: each of its fields is the attribute of `source` of the same name, unless it is
    said here. What ends in `_at` is a time, and written as one."""
    fields = {
        name: said[name] if name in said else written(getattr(source, name))
        for name, written in _written(cast("Any", kind))
    }
    return cast("Document", fields)


@cache
def _written(kind: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    return [(name, rfc3339 if name.endswith("_at") else _plain) for name in kind.__annotations__]


def _plain(value: Any) -> Any:
    # Most values are: asking whether one is a mapping takes longer than all the rest.
    if value is None or value.__class__ in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def trace_document(
    view: TraceView,
    outcomes: Sequence[OutcomeDocument] = (),
    labels: Sequence[Label] = (),
    found: ShownFindings = NOTHING_FOUND,
) -> TraceDocument:
    """Return a trace; its status follows from its outcomes once it is complete."""
    calls = [[document(CallDocument, call) for call in turn.tool_calls] for turn in view.turns]
    return document(
        TraceDocument,
        view,
        agent=view.agents[0] if view.agents else None,
        input=view.turns[0].input if view.turns else None,
        output=view.turns[-1].output if view.turns else None,
        turns=[
            document(TurnDocument, turn, tools_called=called) for turn, called in zip(view.turns, calls, strict=True)
        ],
        closing=None if view.closing is None else document(ClosingDocument, view.closing),
        status=trace_status(outcome["status"] for outcome in outcomes) if view.complete else "running",
        tools_called=[call for called in calls for call in called],
        effort=None if view.effort is None else document(EffortDocument, view.effort.rounded),
        available_tools=[{"name": name} for name in view.available_tools],
        outcomes=list(outcomes),
        labels=[document(LabelDocument, label) for label in labels],
        seen=document(SeenDocument, view.seen),
        open_spans=open_span_documents(view.open_spans),
        **found_document(found),
    )


def trace_status(statuses: Iterable[str]) -> TraceStatus:
    """Return the status of a complete trace: pending while an outcome is, else the best that any outcome reached."""
    seen = set(statuses)
    if Status.PENDING in seen:
        return "pending"
    if Status.SCORED in seen:
        return "scored"
    return "failed" if Status.FAILED in seen else "unscored"


def outcome_document(evaluation: Evaluation, trouble: str | None = None) -> OutcomeDocument:
    """Return an outcome; one that waits for the judge, or rests on traces that do, says what is wrong with it now."""
    outcome = evaluation.outcome
    reason, metadata = outcome.reason, outcome.metadata
    if trouble is not None and waits_for_judge(outcome):
        reason, metadata = f"{reason}; {trouble}", {**metadata, JUDGE_TROUBLE: trouble}
    return document(
        OutcomeDocument,
        evaluation,
        status=outcome.status,
        score=outcome.value if isinstance(outcome, Score) else None,
        reason=reason,
        error_type=outcome.error_type if isinstance(outcome, Failure) else None,
        coverage=outcome.coverage,
        evaluator_version=evaluation.version,
        metadata=metadata,
    )


def found_document(found: ShownFindings) -> FoundDocument:
    """Return the fields that say what was found in a trace or a session."""
    return {
        "findings": [document(FindingDocument, finding) for finding in found.findings],
        "findings_count": {
            "error": found.counts[Severity.ERROR],
            "warning": found.counts[Severity.WARNING],
            "info": found.counts[Severity.INFO],
        },
        "worst": next((severity.value for severity in Severity if found.counts[severity]), "none"),
    }


def open_span_documents(spans: Iterable[OpenSpan]) -> list[OpenSpanDocument]:
    """Return spans that have begun and not ended."""
    return [document(OpenSpanDocument, span) for span in spans]
