"""Connect the check of the judge for bias. It asks the judge again about stored traces, each changed in several ways.

It works whether or not the collector runs. It uses the collector's settings, judge, redaction and budget.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from agenteval_collector.config.judge import NO_JUDGE
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.judge.bias import CHANGES, bias_report
from agenteval_collector.judge.bias_check import DrawnTrace, changed, draw_traces, estimate, settings_for
from agenteval_collector.model.bias import BiasReport, Change, Cost
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.wiring.judge import (
    NoJudgeTelemetry,
    NoRechecks,
    judge_models,
    judged_evaluators,
    make_judge_stage,
    make_ledger,
    trace_loader,
)
from agenteval_collector.wiring.scoring import trace_reader
from agenteval_collector.wiring.storage import Storage, request_file
from otel_agenteval.outcome import Failure, Status, SubjectKind

DRAWN_FROM: Final = 2000
"""Newest judged traces that the check draws from."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """Adds judgements to a list, from which the report is made."""

    judgements: list[Judgement]

    def take_judgement(self, judgement: Judgement) -> None:
        self.judgements.append(judgement)


class BiasCheck(AbstractContextManager["BiasCheck"]):
    """Checks the judge: call `ask` for each change, then `report`. No stored outcome changes."""

    def __init__(self, settings: Settings, clock: Clock, *, limit: int, seed: int) -> None:
        """Draw at most `limit` traces, each of another session, by `seed`. Raises ConfigError where no judge is
        configured, or there is no store, and PermanentError where the data is not ours."""
        if not settings.judge.on:
            raise ConfigError(NO_JUDGE)
        self._settings = settings
        self._clock = clock
        self._seed = seed
        self._asked: dict[Change, list[Judgement]] = {}
        self._storage = Storage(settings, clock, open_log=request_file(settings), is_guest=True)
        try:
            self._drawn = self._draw(limit)
        except BaseException:
            self._storage.shutdown()
            raise

    def __exit__(self, *_: object) -> None:
        self._storage.shutdown()

    @property
    def traces(self) -> int:
        """The number of traces that were drawn."""
        return len(self._drawn)

    @property
    def changes(self) -> list[Change]:
        """The changes to ask about, in this order."""
        second = self._settings.judge.second_model
        return [change for change in CHANGES if change is not Change.SECOND_MODEL or second]

    def costs(self) -> list[Cost]:
        """Estimate what each change takes."""
        with self._storage.store.snapshot() as snapshot:
            found = [snapshot.exchanges(SubjectKind.TRACE, each.job.trace_id) for each in self._drawn]
        asked = [exchanges for exchanges in found if exchanges]
        costs = []
        for change in self.changes:
            models = judge_models(settings_for(change, self._settings))
            costs.append(estimate(change, self._drawn, asked, self._settings, models))
        return costs

    def ask(self, change: Change, progress: Callable[[int], None]) -> str | None:
        """Ask about all traces that the change concerns. `progress` gets the number of those that are left.

        Return why the judge cannot be asked any more, else None. A failure of one trace is no such reason.
        """
        traces = {job.trace_id: trace for job, trace in changed(self._drawn, change)}
        judgements = self._asked[change] = []
        settings = settings_for(change, self._settings)
        stage = make_judge_stage(
            settings,
            make_ledger(settings, self._storage.store.ledger, self._clock),
            self._clock,
            NoJudgeTelemetry(),
            load=lambda job: traces.get(job.trace_id),
            taker=_Taken(judgements),
            capacity=max(1, len(traces)),
            rechecks=NoRechecks(),
            answers=self._storage.store.answers,
        )
        try:
            for each in self._drawn:
                if each.job.trace_id in traces:
                    stage.take_job(each.job)
            stage.drain(progress)
            newest = [each.outcome for judgement in reversed(judgements) for each in judgement.evaluations]
            bound = next((each.reason for each in newest if each.status is Status.OVER_BUDGET), None)
            failure = next((each.reason for each in newest if isinstance(each, Failure)), None)
            return bound or (failure if stage.trouble else None)
        finally:
            stage.shutdown()

    def report(self, stopped: str | None = None) -> BiasReport:
        """Compare the new answers with the earlier scores. If not all was asked, `stopped` says why."""
        before = {(each.job.trace_id, name): value for each in self._drawn for name, value in each.scores.items()}
        return bias_report(before, self._asked, self._seed, self.traces, stopped)

    def _draw(self, limit: int) -> list[DrawnTrace]:
        store = self._storage.store
        return draw_traces(
            store.judged.scored(DRAWN_FROM),
            {each.name: each for each in judged_evaluators(self._settings)},
            trace_loader(self._storage, store.turns, trace_reader(self._settings)),
            limit=limit,
            seed=self._seed,
            now=self._clock.now(),
        )
