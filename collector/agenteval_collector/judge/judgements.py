"""From a job to its judgement."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from agenteval_collector.judge.client.ports import JudgeUnavailable
from agenteval_collector.judge.panel import Judged
from agenteval_collector.judge.ports import Ask
from agenteval_collector.model.judging import Exchange, JudgeJob, Judgement
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Failure

logger = logging.getLogger(__name__)

Load: TypeAlias = Callable[[JudgeJob], Trace | None]
"""Reads a job's trace again; None where its spans are not kept any more. May block; called from any thread."""

JudgeTrace: TypeAlias = Callable[[Trace, Collection[str], Ask], Coroutine[Any, Any, Mapping[str, Judged]]]
"""`Panel.judge`."""

MAX_REASON: Final = 500
"""Characters of an error that are kept."""


class Judgements:
    """Makes judgements; belongs to one event loop.

    `asking` makes the `Ask` of a trace, which records in the list that it is given.
    """

    def __init__(
        self, load: Load, judge_trace: JudgeTrace, asking: Callable[[list[Exchange]], Ask], clock: Clock
    ) -> None:
        self._load = load
        self._judge_trace = judge_trace
        self._asking = asking
        self._clock = clock

    async def find(self, job: JudgeJob) -> Judgement:
        """Have the trace judged. A defect of ours is an outcome too.

        Raises JudgeUnavailable, and RetryableError where it is our own store that cannot be read or written now.
        """
        exchanges: list[Exchange] = []
        try:
            trace = await asyncio.to_thread(self._load, job)
            if trace is None:
                reason = "the trace's spans are no longer kept (log.retention), so the judge cannot read it"
                return self.failed(job, "spans_gone", reason)
            names = {each.name for each in job.pending}
            judged = await self._judge_trace(trace.with_earlier_calls(), names, self._asking(exchanges))
        except (JudgeUnavailable, RetryableError):
            raise
        except Exception as error:
            logger.exception("trace %s could not be judged", job.trace_id)
            return self.failed(job, type(error).__qualname__, f"the trace could not be judged: {error}", exchanges)
        return self._judgement(job, judged, exchanges)

    def failed(self, job: JudgeJob, error_type: str, reason: str, exchanges: Collection[Exchange] = ()) -> Judgement:
        """Make the judgement of a trace that cannot be judged."""
        shortened = reason if len(reason) <= MAX_REASON else reason[:MAX_REASON] + "..."
        failure = Judged(outcome=Failure(error_type=error_type, reason=shortened))
        return self._judgement(job, {each.name: failure for each in job.pending}, exchanges)

    def _judgement(self, job: JudgeJob, judged: Mapping[str, Judged], exchanges: Collection[Exchange]) -> Judgement:
        now = self._clock.now()
        found = [(each, judged.get(each.name, _UNKNOWN)) for each in job.pending]
        return Judgement(
            job=job,
            evaluations=tuple(
                replace(each, outcome=by.outcome, model=by.model, evaluated_at=now) for each, by in found
            ),
            exchanges=tuple(exchanges),
        )


_UNKNOWN: Final = Judged(
    outcome=Failure(error_type="unknown_evaluator", reason="the settings have no judged evaluator of this name")
)
"""For an outcome that has waited since before the settings changed."""
