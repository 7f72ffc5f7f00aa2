"""The outcomes of one trace. Some are made at once, the others are left to the judge."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agenteval_collector.evaluation.ports import Judging
from agenteval_collector.evaluators import EvaluationContext, TraceEvaluator
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.conventions.run_attributes import EXPECTED_TOOLS
from otel_agenteval.finding import Finding
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Trace
from otel_agenteval.outcome import MAX_REASON, Evaluation, Failure, Method, Outcome, SubjectKind

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TraceOutcomes:
    """Asks every evaluator about one trace.

    The evaluators `with_truth` are asked only about a trace that has ground truth, even if that could not be read.
    """

    evaluators: Sequence[TraceEvaluator]
    with_truth: Sequence[TraceEvaluator]
    judging: Judging
    thresholds: Mapping[str, float | None]
    embedding_model: str
    clock: Clock

    def find(
        self, context: EvaluationContext, session_id: str, revision: int, failure: Failure | None
    ) -> list[Evaluation]:
        """Return the outcomes that need no judge. With a `failure` to read the trace, all outcomes are that failure."""
        trace = context.trace
        evaluation = self._about(trace, session_id, revision)
        return [
            evaluation(
                name=each.name,
                version=each.version,
                method=each.method,
                model=self.embedding_model if each.method is Method.EMBEDDING else None,
                threshold=self.thresholds[each.name],
                outcome=failure or _outcome(each, context),
            )
            for each in (*self.evaluators, *(self.with_truth if _has_truth(trace) else ()))
        ]

    def left_to_judge(
        self, trace: Trace, session_id: str, revision: int, failure: Failure | None, findings: Sequence[Finding]
    ) -> list[Evaluation]:
        """Return the outcomes that are left to the judge, pending and final ones. `findings` are those of the trace."""
        evaluation = self._about(trace, session_id, revision)
        return [
            evaluation(
                name=each.name,
                version=each.version,
                method=Method.LLM,
                model=each.model,
                threshold=each.threshold,
                outcome=failure or each.outcome,
                part=None if failure else each.part,
            )
            for each in self.judging.refer(trace.with_earlier_calls(), session_id, findings)
        ]

    def _about(self, trace: Trace, session_id: str, revision: int) -> partial[Evaluation]:
        """Return an evaluation of this revision without the parts that depend on the evaluator."""
        return partial(
            Evaluation,
            subject=SubjectKind.TRACE,
            subject_id=trace.trace_id,
            revision=revision,
            session_id=session_id,
            trace_id=trace.trace_id,
            span_id=trace.turns[0].span_id if trace.turns else trace.root_span_id,
            agent=trace.agent,
            service=trace.service,
            service_version=trace.service_version,
            environment=trace.environment,
            evaluated_at=self.clock.now(),
        )


def _has_truth(trace: Trace) -> bool:
    return trace.expected_tools is not None or EXPECTED_TOOLS in trace.unread


def _outcome(evaluator: TraceEvaluator, context: EvaluationContext) -> Outcome:
    try:
        return evaluator.evaluate(context)
    except Exception as error:  # A defect of one evaluator must not stop the others.
        logger.exception("%s failed on trace %s", evaluator.name, context.trace.trace_id)
        return failure_of(error, "the evaluator failed")


def failure_of(error: Exception, what: str) -> Failure:
    """Return the error as an outcome. Its text is cut, because errors quote input of any size."""
    try:
        told = str(error)
    except Exception:  # noqa: BLE001 - an error's __str__ may raise anything
        told = "its error has no text"
    return Failure(error_type=type(error).__qualname__, reason=cut(f"{what}: {told}", MAX_REASON))
