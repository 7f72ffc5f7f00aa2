"""Evaluation and judging in the calling thread, over a store, without anything that listens or counts."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from agenteval_collector.config import Settings
from agenteval_collector.evaluation import EvaluationStage
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.judging import Exchange, JudgeJob
from agenteval_collector.model.news import News
from agenteval_collector.offline.dataset import Dataset
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores import Store
from agenteval_collector.wiring.judge import make_judge_stage, make_judging
from agenteval_collector.wiring.scoring import EvaluationCore

BATCH: Final = 64
"""Traces evaluated, and then judged, at a time."""


class Offline:
    """Scores `traces`, by trace id; a context manager, because a judge may hold connections.

    `dataset` says which tools were expected of runs whose traces do not.

    Raises ConfigError as the collector does at its start.
    """

    def __init__(
        self, settings: Settings, store: Store, clock: Clock, traces: Mapping[str, AssembledTrace], dataset: Dataset
    ) -> None:
        judging = make_judging(settings, store)
        core = EvaluationCore(
            settings, store, clock, NoTelemetry(), judging, traces.get, expected_tools=dataset.expected_tools
        )
        self._stage = EvaluationStage(
            core.evaluation,
            core.sessions,
            store,
            _NoSink(),
            lambda _trace_id, _revision: None,
            self._refer,
        )
        self._judge = None
        if settings.judge.on:
            self._judge = make_judge_stage(
                settings,
                store.ledger,
                clock,
                _NoJudgeTelemetry(),
                load=lambda job: core.read(traces[job.trace_id]),
                deliver=lambda judgement: self._stage.process_judgements([judgement]),
                # A batch may take up earlier traces of its sessions.
                capacity=max(BATCH, len(traces)),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._judge is not None:
            self._judge.shutdown()

    def score(self, traces: Sequence[AssembledTrace], progress: Callable[[int], None]) -> None:
        """Evaluate and judge the traces in this order; `progress` is told how many were scored just now."""
        for first in range(0, len(traces), BATCH):
            batch = traces[first : first + BATCH]
            self._stage.process(batch)
            if self._judge is None:
                progress(len(batch))
            else:
                done = _Done(len(batch), progress)
                done(self._judge.waiting)
                self._judge.drain(done)

    def _refer(self, job: JudgeJob) -> None:
        if self._judge is not None:
            self._judge.submit(job)


class _Done:
    """Turns how many are left into how many were done since the last call."""

    def __init__(self, left: int, progress: Callable[[int], None]) -> None:
        self._left = left
        self._progress = progress

    def __call__(self, left: int) -> None:
        if left < self._left:
            self._progress(self._left - left)
            self._left = left


class _NoSink:
    def accept(self, news: News) -> None: ...


class NoTelemetry:
    """Telemetry that counts nothing."""

    def received(self, spans: int) -> None: ...
    def rejected(self, spans: int) -> None: ...
    def refused(self, error_type: str) -> None: ...
    def own_scope(self, spans: int) -> None: ...
    def unread(self, kind: str, values: int) -> None: ...
    def late(self, spans: int) -> None: ...
    def replayed(self, requests: int) -> None: ...
    def released_early(self, traces: int) -> None: ...


class _NoJudgeTelemetry:
    def asked(self, exchange: Exchange, error_type: str | None) -> None: ...
    def requested(self, model: str, error_type: str | None) -> None: ...
    def no_room(self) -> None: ...
