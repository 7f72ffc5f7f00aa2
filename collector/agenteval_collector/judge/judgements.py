"""Make the judgement of a job: load its trace, have it judged, and turn errors into outcomes."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from agenteval_collector.judge.asking import TraceQuestions
from agenteval_collector.judge.panel import Judged
from agenteval_collector.judge.ports import JudgeUnavailable
from agenteval_collector.model.judge_jobs import JudgeExchange, JudgeJob, Judgement, drawn_with
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Trace
from otel_agenteval.outcome import MAX_REASON, Failure

logger = logging.getLogger(__name__)

Load: TypeAlias = Callable[[JudgeJob], Trace | None]
"""Reads a job's trace again. Returns None if its spans are no longer kept. May block; called from any thread."""

JudgeTrace: TypeAlias = Callable[[Trace, Collection[str], TraceQuestions], Coroutine[Any, Any, Mapping[str, Judged]]]
"""Judges a trace: `Panel.judge`."""

SPANS_GONE: Final = "spans_gone"
"""The error of a trace that can no longer be read."""


@dataclass(frozen=True, slots=True)
class Judgements:
    """Makes judgements on one event loop. `asking` makes the questions of a job, which note their exchanges."""

    load: Load
    judge_trace: JudgeTrace
    asking: Callable[[JudgeJob, list[JudgeExchange]], TraceQuestions]
    clock: Clock

    async def find(self, job: JudgeJob) -> Judgement:
        """Have the job's trace judged. A bug of ours becomes a failed outcome.

        Raises JudgeUnavailable, and RetryableError if our own store refuses.
        """
        exchanges: list[JudgeExchange] = []
        try:
            # Loading may block, and the loop serves other traces meanwhile.
            trace = await asyncio.to_thread(self.load, job)
            if trace is None:
                reason = "the trace's spans are no longer kept (log.retention), so the judge cannot read it"
                return self.failed(job, SPANS_GONE, reason)
            names = {evaluation.name for evaluation in job.pending}
            judged = await self.judge_trace(trace.with_earlier_calls(), names, self.asking(job, exchanges))
        except (JudgeUnavailable, RetryableError):
            raise
        except Exception as error:
            logger.exception("trace %s could not be judged", job.trace_id)
            return self.failed(job, type(error).__qualname__, f"the trace could not be judged: {error}", exchanges)
        return self._judgement(job, judged, exchanges)

    def failed(
        self, job: JudgeJob, error_type: str, reason: str, exchanges: Collection[JudgeExchange] = ()
    ) -> Judgement:
        """Make the judgement of a trace that cannot be judged."""
        failure = Judged(outcome=Failure(error_type=error_type, reason=cut(reason, MAX_REASON)))
        return self._judgement(job, {evaluation.name: failure for evaluation in job.pending}, exchanges)

    def _judgement(
        self, job: JudgeJob, judged: Mapping[str, Judged], exchanges: Collection[JudgeExchange]
    ) -> Judgement:
        now = self.clock.now()
        evaluations = []
        for evaluation in job.pending:
            by = judged.get(evaluation.name, _UNKNOWN)
            outcome = replace(by.outcome, metadata={**by.outcome.metadata, **drawn_with(evaluation.outcome)})
            evaluations.append(replace(evaluation, outcome=outcome, model=by.model, evaluated_at=now))
        return Judgement(job=job, evaluations=tuple(evaluations), exchanges=tuple(exchanges))


_UNKNOWN: Final = Judged(
    outcome=Failure(error_type="unknown_evaluator", reason="the settings have no judged evaluator of this name")
)
"""The outcome of an evaluator that the settings no longer have: they changed while it waited."""
