"""Evaluations as `gen_ai.evaluation.result` events on the evaluated span.

Names as in the GenAI semantic conventions (open-telemetry/semantic-conventions-genai); what those do not define is
under `agenteval.*`, the evaluated service included: the resource of the event is this collector.
"""

from typing import Final

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agenteval_collector.emit.instruments import score_label
from agenteval_collector.emit.labels import clean, present
from agenteval_collector.model.news import News, has_event
from otel_agenteval import semconv
from otel_agenteval.detectors import LOOP_EVALUATOR, LOOP_KINDS
from otel_agenteval.finding import Finding
from otel_agenteval.outcome import Evaluation, Failure, Score, Status

_EXPLANATION_LENGTH: Final = 1024
_NAME_LENGTH: Final = 256


class EvaluationEvents:
    """Emits every revision of every outcome but `no_judge`; and once each finding that was told live or is an error."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def take_news(self, news: News) -> None:
        """Emit an event for each evaluation and each finding that has one."""
        for finding in filter(has_event, news.counted):
            context = _context(finding.trace_id, finding.span_id)
            self._emit(finding.found_at, context, _finding_attributes(finding))
        for committed in news.evaluations:
            evaluation = committed.evaluation
            # A final score was emitted when it was found, and that there is no judge is news of no trace.
            if committed.final or evaluation.outcome.status is Status.NO_JUDGE:
                continue
            context = _context(evaluation.trace_id, evaluation.span_id)
            self._emit(evaluation.evaluated_at, context, _attributes(evaluation))

    def _emit(self, at: int, context: Context, attributes: dict[str, str | float | int]) -> None:
        self._logger.emit(
            LogRecord(
                timestamp=at,
                observed_timestamp=at,
                context=context,
                severity_number=SeverityNumber.INFO,
                severity_text="INFO",
                event_name=semconv.GEN_AI_EVALUATION_RESULT_EVENT,
                attributes=attributes,
            )
        )


def finding_key(record: LogRecord) -> tuple[str, str, str] | None:
    """Return trace, kind and span of the finding that an event tells of. The span is empty where there is none; None
    for an event about an evaluation."""
    kind = (record.attributes or {}).get(semconv.AGENTEVAL_FINDING_KIND)
    if kind is None:
        return None
    span_id = format(record.span_id, "016x") if record.span_id else ""
    return format(record.trace_id or 0, "032x"), str(kind), span_id


def _context(trace_id: str | None, span_id: str | None) -> Context:
    """Return the context of the evaluated span. Without a span id the trace id alone still leads there."""
    span = SpanContext(
        trace_id=int(trace_id or "0", 16),
        span_id=int(span_id or "0", 16),
        is_remote=True,
        # What was exported to us was sampled.
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())


def _attributes(evaluation: Evaluation) -> dict[str, str | float | int]:
    outcome = evaluation.outcome
    attributes: dict[str, str | float | int | None] = {
        semconv.GEN_AI_EVALUATION_NAME: evaluation.name,
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: outcome.value if isinstance(outcome, Score) else None,
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: score_label(evaluation),
        semconv.GEN_AI_EVALUATION_EXPLANATION: clean(outcome.reason, _EXPLANATION_LENGTH),
        semconv.ERROR_TYPE: clean(outcome.error_type, _NAME_LENGTH) if isinstance(outcome, Failure) else None,
        semconv.GEN_AI_CONVERSATION_ID: clean(evaluation.session_id, _NAME_LENGTH),
        semconv.GEN_AI_AGENT_NAME: _name(evaluation.agent),
        semconv.AGENTEVAL_SUBJECT: evaluation.subject.value,
        semconv.AGENTEVAL_METHOD: evaluation.method.value,
        semconv.AGENTEVAL_STATUS: outcome.status.value,
        semconv.AGENTEVAL_PART: None if evaluation.part is None else evaluation.part.value,
        semconv.AGENTEVAL_COVERAGE: outcome.coverage,
        semconv.AGENTEVAL_THRESHOLD: evaluation.threshold,
        semconv.AGENTEVAL_REVISION: evaluation.revision,
        semconv.AGENTEVAL_EVALUATOR_VERSION: evaluation.version,
        semconv.AGENTEVAL_EVALUATOR_MODEL: _name(evaluation.model),
        semconv.AGENTEVAL_SERVICE_NAME: _name(evaluation.service),
        semconv.AGENTEVAL_SERVICE_VERSION: _name(evaluation.service_version),
    }
    return present(attributes)


def _finding_attributes(finding: Finding) -> dict[str, str | float | int]:
    is_loop = finding.kind in LOOP_KINDS
    # The session may only become known later.
    session_id = None if finding.session_id == finding.trace_id else finding.session_id
    return present(
        {
            semconv.GEN_AI_EVALUATION_NAME: LOOP_EVALUATOR if is_loop else finding.kind,
            semconv.GEN_AI_EVALUATION_SCORE_LABEL: "fail",
            semconv.GEN_AI_EVALUATION_EXPLANATION: clean(finding.reason, _EXPLANATION_LENGTH),
            semconv.GEN_AI_CONVERSATION_ID: _name(session_id),
            semconv.GEN_AI_AGENT_NAME: _name(finding.agent),
            semconv.AGENTEVAL_FINDING_KIND: finding.kind,
            semconv.AGENTEVAL_FINDING_SEVERITY: finding.severity.value,
            semconv.AGENTEVAL_LOOP_KIND: finding.kind if is_loop else None,
            semconv.AGENTEVAL_LOOP_MODE: finding.mode.value if is_loop and finding.mode is not None else None,
            semconv.AGENTEVAL_SERVICE_NAME: _name(finding.service),
            semconv.AGENTEVAL_SERVICE_VERSION: _name(finding.service_version),
        }
    )


def _name(text: str | None) -> str | None:
    return None if text is None else clean(text, _NAME_LENGTH)
