"""The collector's parts from the evaluation on, in the calling thread: nothing listens, waits or counts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from agenteval_collector.app.judge import (
    NoJudgeStage,
    NoJudgeTelemetry,
    NoRechecks,
    make_judge_stage,
    make_judging,
    make_ledger,
    trace_loader,
)
from agenteval_collector.app.scoring import EvaluationCore, TruthOfRuns, reliability_reports
from agenteval_collector.app.stages import make_inbox
from agenteval_collector.config.settings import Settings
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.news import News, no_events
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.running_traces import RunningTrace, UnendedSpan
from agenteval_collector.model.runs import RunKey
from agenteval_collector.model.trace_view import TraceView
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.spans import SpanQueries
from agenteval_collector.stores.store import Store

BATCH: Final = 64
"""Traces evaluated, and then judged, at a time."""


class OfflineCollector(AbstractContextManager["OfflineCollector"]):
    """Scores `traces`, by trace id, and keeps the scores in a store in `folder`. The context manager closes the store.

    `truth` gives the expected tools of runs whose traces do not name any. Raises ConfigError as the collector does at
    its start.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        clock: Clock,
        traces: Mapping[str, AssembledTrace],
        truth: TruthOfRuns | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._traces = traces
        self.store = Store(folder / "agenteval.db", clock, events_of=no_events)
        try:
            self._core = EvaluationCore(
                settings,
                self.store,
                clock,
                NoTelemetry(),
                make_judging(settings, self.store, NoTelemetry()),
                self,
                EverySession(),
                truth=truth,
            )
            self._inbox = make_inbox(settings)
            self._judge = self._make_judge() if settings.judge.on else NoJudgeStage()
        except BaseException:
            self.store.shutdown()
            raise
        self._evaluation = self._core.stage(self._inbox, self._judge, scored=_Nobody(), emit=_Nobody())
        self.reliability = reliability_reports(settings, self.store, clock)
        self.queries = Queries(
            self.store,
            clock,
            idle=settings.session.idle,
            reliability=self.reliability,
            running=NothingRuns(),
            judge=NothingRuns(),
            drifts=tuple,
            spans=SpanQueries(self.trace, TokenPrices(settings.prices).usd),
        )

    def __exit__(self, *_: object) -> None:
        self._judge.shutdown()
        self.store.shutdown()

    def score(self, traces: Sequence[AssembledTrace], progress: Callable[[int], None]) -> None:
        """Evaluate and judge the traces in this order. `progress` gets the number that was done since its last call."""
        for first in range(0, len(traces), BATCH):
            self._score_batch(traces[first : first + BATCH], progress)

    def trace(self, trace_id: str) -> AssembledTrace | None:
        """Return one of the traces by its id; None for any other id."""
        return self._traces.get(trace_id)

    def runs(self) -> dict[RunKey, list[str]]:
        """Return the ids of each run's traces."""
        with self.store.runs.snapshot() as runs:
            by_run = runs.traces(list(runs.names()))
        return {run: [trace.trace_id for trace in traces] for run, traces in by_run.items()}

    def _score_batch(self, batch: Sequence[AssembledTrace], progress: Callable[[int], None]) -> None:
        left = len(batch)

        def waiting(now: int) -> None:
            nonlocal left
            if now < left:
                progress(left - now)
                left = now

        self._evaluation.evaluate_batch(batch)
        waiting(self._judge.waiting)
        self._judge.drain(waiting)
        while self._evaluation.work_off_inbox(0.0):
            pass

    def _make_judge(self) -> JudgeStage:
        return make_judge_stage(
            self._settings,
            make_ledger(self._settings, self.store.ledger, self._clock),
            self._clock,
            NoJudgeTelemetry(),
            load=trace_loader(self, self.store, self._core.reader),
            taker=self._inbox,
            # A batch may take up earlier traces of its sessions.
            capacity=max(BATCH, len(self._traces)),
            rechecks=NoRechecks(),
            answers=self.store.answers,
        )


class _Nobody:
    """Takes news of what is stored, and does nothing with it."""

    def take_news(self, news: News) -> None: ...

    def take_scored(self, trace_id: str, revision: int) -> None: ...


class NothingRuns:
    """The running traces and the judge's state if nothing runs, as in a replay."""

    trouble = fault = None

    def trace(self, trace_id: str) -> TraceView | None:
        return None

    def traces(self) -> Sequence[RunningTrace]:
        return ()

    def open_spans(self, trace_id: str) -> tuple[Sequence[UnendedSpan], str | None]:
        return (), None
