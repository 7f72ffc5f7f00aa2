"""The outcomes of one trace: those that are found at once, and those that are left to the judge."""

import logging
from collections.abc import Mapping, Sequence

from agenteval_collector.evaluation.ports import Judging
from agenteval_collector.evaluators import EvaluationContext, TraceEvaluator
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.conventions.runs import EXPECTED_TOOLS
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Failure, Method, Outcome, Subject

logger = logging.getLogger(__name__)

MAX_REASON = 500
"""Characters of an error that are kept."""


class TraceOutcomes:
    """Asks every evaluator about a trace by itself, and adds the outcomes that are left to the judge.

    `with_truth` are asked only about traces with ground truth, readable or not. `thresholds` by evaluator name,
    `embedding_model` is named by evaluations that rest on it.
    """

    def __init__(
        self,
        evaluators: Sequence[TraceEvaluator],
        with_truth: Sequence[TraceEvaluator],
        judging: Judging,
        thresholds: Mapping[str, float | None],
        embedding_model: str,
        clock: Clock,
    ) -> None:
        self._evaluators = evaluators
        self._with_truth = with_truth
        self._judging = judging
        self._thresholds = thresholds
        self._embedding_model = embedding_model
        self._clock = clock

    def find(
        self, context: EvaluationContext, session_id: str, revision: int, failure: Failure | None
    ) -> list[Evaluation]:
        """Return the outcomes of this revision of the trace. Where it could not be read, `failure` is the outcome of
        all."""
        trace = context.trace
        evaluators = [*self._evaluators, *(self._with_truth if _has_truth(trace) else ())]
        return [
            self._evaluation(
                trace, session_id, revision,
                name=each.name,
                version=each.version,
                method=each.method,
                model=self._embedding_model if each.method is Method.EMBEDDING else None,
                threshold=self._thresholds[each.name],
                outcome=failure or _outcome(each, context),
            )
            for each in evaluators
        ]  # fmt: skip

    def left_to_judge(
        self, trace: Trace, session_id: str, revision: int, failure: Failure | None, *, looped: bool
    ) -> list[Evaluation]:
        """Return the judged outcomes of this revision of the trace, pending and final ones. `looped` is true where a
        loop was found in it."""
        return [
            self._evaluation(
                trace, session_id, revision,
                name=each.name,
                version=each.version,
                method=Method.LLM,
                model=each.model,
                threshold=each.threshold,
                outcome=failure or each.outcome,
            )
            for each in self._judging.refer(trace.with_earlier_calls(), session_id, looped=looped)
        ]  # fmt: skip

    def _evaluation(
        self,
        trace: Trace,
        session_id: str,
        revision: int,
        *,
        name: str,
        version: str,
        method: Method,
        model: str | None,
        threshold: float | None,
        outcome: Outcome,
    ) -> Evaluation:
        return Evaluation(
            name=name,
            version=version,
            method=method,
            subject=Subject.TRACE,
            subject_id=trace.trace_id,
            revision=revision,
            outcome=outcome,
            threshold=threshold,
            session_id=session_id,
            trace_id=trace.trace_id,
            span_id=trace.turns[0].span_id if trace.turns else trace.root_span_id,
            agent=trace.agent,
            service=trace.service,
            service_version=trace.service_version,
            model=model,
            evaluated_at=self._clock.now(),
        )


def _has_truth(trace: Trace) -> bool:
    return trace.expected_tools is not None or EXPECTED_TOOLS in trace.unread


def _outcome(evaluator: TraceEvaluator, context: EvaluationContext) -> Outcome:
    try:
        return evaluator.evaluate(context)
    except Exception as error:  # Whatever one evaluator does, the others go on.
        logger.exception("%s failed on trace %s", evaluator.name, context.trace.trace_id)
        return failure_of(error, "the evaluator failed")


def failure_of(error: Exception, what: str) -> Failure:
    """Return the error as an outcome. The message is cut, because errors quote input of any size."""
    try:
        told = str(error)
    except Exception:  # noqa: BLE001 - whatever an error's own text raises
        told = "its error has no text"
    reason = f"{what}: {told}"
    shortened = reason if len(reason) <= MAX_REASON else reason[:MAX_REASON] + "..."
    return Failure(error_type=type(error).__qualname__, reason=shortened)
