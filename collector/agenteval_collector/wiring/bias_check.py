"""The check of the judge for bias: it is asked again about traces in the store, each changed in one way after another.

Beside a running collector or without one, with its settings: the same panel, endpoint, redaction and ledger.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, TypeVar

from agenteval_collector.config.evaluators import JudgedConfig
from agenteval_collector.config.judge import NO_JUDGE
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.config.values import Section
from agenteval_collector.judge.bias import CHANGES, bias_report, unchanged
from agenteval_collector.judge.budget import PriceList
from agenteval_collector.judge.canaries import recheck
from agenteval_collector.judge.frozen import shown_whole, written
from agenteval_collector.judge.prompt.encoding import tokens
from agenteval_collector.judge.referrals import JudgedEvaluator
from agenteval_collector.model.bias import BiasReport, Change, Cost
from agenteval_collector.model.judge_jobs import JudgeExchange, JudgeJob, Judgement
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
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Failure, Score, Status, SubjectKind

S = TypeVar("S", bound=Section)

DRAWN_FROM: Final = 2000
"""Newest judged traces that the check draws from."""
_REQUESTS: Final = 5
_REPLY_TOKENS: Final = 1024


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A trace with what the judge said of it: `job` asks for the same scores again."""

    job: JudgeJob
    trace: Trace
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Taken:
    """Adds judgements to a list, from which the report is made."""

    judgements: list[Judgement]

    def take_judgement(self, judgement: Judgement) -> None:
        self.judgements.append(judgement)


class BiasCheck(AbstractContextManager["BiasCheck"]):
    """`ask` does one change after another; what was asked until then is in `report`. Nothing becomes of any outcome."""

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
        """Estimate what each change takes by what was asked about these traces before; where nothing of it is kept, by
        the most that can be asked."""
        with self._storage.store.snapshot() as snapshot:
            asked = [
                found for each in self._drawn if (found := snapshot.exchanges(SubjectKind.TRACE, each.job.trace_id))
            ]
        return [self._cost(change, asked) for change in self.changes]

    def ask(self, change: Change, progress: Callable[[int], None]) -> str | None:
        """Ask about all traces that the change concerns; `progress` is told how many are left.

        Returns the reason where the judge cannot be asked any further, which is none of single traces.
        """
        changed = {job.trace_id: trace for job, trace in self._changed(change)}
        judgements = self._asked[change] = []
        settings = _settings_for(change, self._settings)
        stage = make_judge_stage(
            settings,
            make_ledger(settings, self._storage.store.ledger, self._clock),
            self._clock,
            NoJudgeTelemetry(),
            load=lambda job: changed.get(job.trace_id),
            taker=_Taken(judgements),
            capacity=max(1, len(changed)),
            rechecks=NoRechecks(),
            answers=self._storage.store.answers,
        )
        try:
            for each in self._drawn:
                if each.job.trace_id in changed:
                    stage.take_job(each.job)
            stage.drain(progress)
            newest = [each.outcome for judgement in reversed(judgements) for each in judgement.evaluations]
            bound = next((each.reason for each in newest if each.status is Status.OVER_BUDGET), None)
            failure = next((each.reason for each in newest if isinstance(each, Failure)), None)
            return bound or (failure if stage.trouble else None)
        finally:
            stage.shutdown()

    def report(self, stopped: str | None = None) -> BiasReport:
        """Compare what was asked until now with what the judge had said. `stopped` says why that is not all."""
        before = {(each.job.trace_id, name): value for each in self._drawn for name, value in each.scores.items()}
        return bias_report(before, self._asked, self._seed, self.traces, stopped)

    def _draw(self, limit: int) -> list[_Drawn]:
        evaluators = {each.name: each for each in judged_evaluators(self._settings)}
        load = trace_loader(self._storage, self._storage.store.turns, trace_reader(self._settings))
        found = self._storage.store.judged.scored(DRAWN_FROM)
        candidates = [scores for each in found if (scores := _current(each, evaluators))]
        random.Random(self._seed).shuffle(candidates)
        drawn: dict[str, _Drawn] = {}
        for scores in candidates:
            if len(drawn) == limit:
                break
            first = scores[0]
            asked_by = [evaluators[each.name] for each in scores]
            job = recheck(first.subject_id, first.session_id, first.revision, asked_by, self._clock.now())
            if first.session_id not in drawn and (trace := load(job)) is not None:
                values = {each.name: each.outcome.value for each in scores if isinstance(each.outcome, Score)}
                drawn[first.session_id] = _Drawn(job, shown_whole(trace), values)
        return list(drawn.values())

    def _changed(self, change: Change) -> Iterator[tuple[JudgeJob, Trace]]:
        """Yield the traces after the change, but those that it leaves as they are, where that is not its sense."""
        for each in self._drawn:
            trace = CHANGES[change](each.trace)
            if CHANGES[change] is unchanged or written(trace) != written(each.trace):
                yield each.job, trace

    def _cost(self, change: Change, asked: Sequence[Sequence[JudgeExchange]]) -> Cost:
        judge = self._settings.judge
        settings = _settings_for(change, self._settings)
        traces = sum(1 for _ in self._changed(change))
        known = [_tokens(each) for exchanges in asked for each in exchanges]
        sent, replied = zip(*known, strict=True) if known else ([judge.trace_tokens], [_REPLY_TOKENS])
        requests = round(traces * (fmean(map(len, asked)) if asked else _REQUESTS * judge.votes))
        tokens_in, tokens_out = round(requests * fmean(sent)), round(requests * fmean(replied))
        # Where several models share the questions, the dearest is counted.
        prices = [PriceList(judge.prices).usd(model, tokens_in, tokens_out) for model in judge_models(settings)]
        priced = [price for price in prices if price is not None]
        return Cost(
            change=change,
            traces=traces,
            requests=requests,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            usd=max(priced) if len(priced) == len(prices) else None,
        )


def _tokens(asked: JudgeExchange) -> tuple[int, int]:
    """Return the tokens of a request and its reply; an estimate where an earlier one was answer enough."""
    if asked.input_tokens and asked.output_tokens:
        return asked.input_tokens, asked.output_tokens
    return tokens(asked.instructions) + tokens(asked.data), tokens(asked.reply or "")


def _current(scores: Iterable[Evaluation], evaluators: Mapping[str, JudgedEvaluator]) -> list[Evaluation]:
    """Return those that answer the questions as they are asked now."""
    return [each for each in scores if each.name in evaluators and each.version == evaluators[each.name].version]


def _settings_for(change: Change, settings: Settings) -> Settings:
    """Return the settings by which the judge is asked after a change."""
    judge, safety = settings.judge, settings.reliability.safety
    match change:
        case Change.SECOND_MODEL:
            rubrics = tuple(_with(rubric, model=None) for rubric in judge.rubrics)
            configs = {name: getattr(settings.evaluators, name) for name in type(settings.evaluators).model_fields}
            same = {name: _with(each, model=None) for name, each in configs.items() if isinstance(each, JudgedConfig)}
            judge = _with(judge, model=judge.second_model, rubrics=rubrics)
            return _with(settings, judge=judge, evaluators=_with(settings.evaluators, **same))
        case Change.SWAPPED:
            safety = _with(safety, constraints=safety.constraints[::-1])
            return _with(settings, reliability=_with(settings.reliability, safety=safety))
    return settings


def _with(section: S, **changes: Any) -> S:
    return section.model_copy(update=changes)
