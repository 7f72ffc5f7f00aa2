"""Count the verdicts that a change of the traces flipped, and test whether that is more than the judge's own noise.

Traces of a session are alike, and so are the evaluators of a trace: a session counts once, as flipped where any verdict
on it is. A session is drawn with one trace. Flips with the change and flips without one are paired by session and
compared by McNemar's exact test (1947, "Note on the sampling error of the difference between correlated proportions"),
its p-value times the number of changes (Bonferroni). The interval of a share is Jeffreys' (Brown, Cai and DasGupta
2001, "Interval estimation for a binomial proportion", section 4.1).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, TypeAlias

from agenteval_collector.judge.drift import two_sided
from agenteval_collector.model.bias import BiasReport, Change, ChangeEffect, Cost, VerdictFlip
from agenteval_collector.model.judging import Judgement
from otel_agenteval.metrics.pass_rate import jeffreys
from otel_agenteval.outcome import Evaluation, Score

LEVEL: Final = 0.05
"""Chance that a fair judge is said to mind any of the changes."""

Before: TypeAlias = Mapping[tuple[str, str], float]
"""The scores that traces had, by trace id and evaluator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The judgements of traces after one change."""

    change: Change
    judgements: Sequence[Judgement]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A verdict now, beside the score `before`."""

    now: Evaluation
    before: float
    after: float

    @property
    def key(self) -> tuple[str, str]:
        return self.now.subject_id, self.now.name

    @property
    def flipped(self) -> bool:
        assert self.now.threshold is not None, "judged evaluators have thresholds"
        return (self.before >= self.now.threshold) != (self.after >= self.now.threshold)


def bias_report(before: Before, asked: Sequence[Asked], seed: int, traces: int, stopped: str | None) -> BiasReport:
    """Compare what the judge said after each change with what it had said; the repetition is the first of `asked`."""
    verdicts = {each.change: _verdicts(before, each.judgements) for each in asked}
    noise = verdicts.get(Change.REPEAT, [])
    tests = sum(each.change is not Change.REPEAT for each in asked)
    flips = [_flip(change, each) for change, found in verdicts.items() for each in found if each.flipped]
    return BiasReport(
        seed=seed,
        traces=traces,
        effects=tuple(_effect(each, verdicts[each.change], noise, tests) for each in asked),
        flips=tuple(flips),
        stopped=stopped,
    )


def spent(change: Change, judgements: Sequence[Judgement]) -> Cost:
    """Add up what the requests took; tokens that the endpoint does not tell count as none."""
    made = [exchange for judgement in judgements for exchange in judgement.exchanges if not exchange.cached]
    paid = [each.usd for each in made if each.input_tokens is not None]
    return Cost(
        change=change,
        traces=len(judgements),
        requests=len(made),
        input_tokens=sum(each.input_tokens or 0 for each in made),
        output_tokens=sum(each.output_tokens or 0 for each in made),
        usd=None if None in paid else sum(each or 0.0 for each in paid),
    )


def _verdicts(before: Before, judgements: Sequence[Judgement]) -> list[_Verdict]:
    return [
        _Verdict(each, before[each.subject_id, each.name], each.outcome.value)
        for judgement in judgements
        for each in judgement.evaluations
        if isinstance(each.outcome, Score)
    ]


def _effect(asked: Asked, verdicts: Sequence[_Verdict], noise: Sequence[_Verdict], tests: int) -> ChangeEffect:
    sessions = {each.now.session_id for each in verdicts}
    flips = [each for each in verdicts if each.flipped]
    flipped = len({each.now.session_id for each in flips})
    rate = flipped / len(sessions) if sessions else None
    to_pass = sum(each.after > each.before for each in flips)
    p_value = None if asked.change is Change.REPEAT else _p_value(verdicts, noise, tests)
    return ChangeEffect(
        cost=spent(asked.change, asked.judgements),
        verdicts=len(verdicts),
        unanswered=sum(len(each.evaluations) for each in asked.judgements) - len(verdicts),
        to_pass=to_pass,
        to_fail=len(flips) - to_pass,
        sessions=len(sessions),
        flipped=flipped,
        rate=rate,
        interval=None if rate is None else jeffreys(rate, len(sessions)),
        p_value=p_value,
        is_beyond_noise=None if p_value is None else p_value < LEVEL,
        mean_change=_mean_change(verdicts),
    )


def _p_value(verdicts: Sequence[_Verdict], noise: Sequence[_Verdict], tests: int) -> float | None:
    """Test the sessions of verdicts that were given both times; None where there are none."""
    both = {each.key for each in verdicts} & {each.key for each in noise}
    if not both:
        return None
    with_change, without = _flipped(verdicts, both), _flipped(noise, both)
    return min(1.0, tests * two_sided(len(with_change - without), len(without - with_change)))


def _flipped(verdicts: Sequence[_Verdict], among: Collection[tuple[str, str]]) -> set[str]:
    return {each.now.session_id for each in verdicts if each.flipped and each.key in among}


def _mean_change(verdicts: Sequence[_Verdict]) -> float | None:
    by_session: dict[str, list[float]] = {}
    for each in verdicts:
        by_session.setdefault(each.now.session_id, []).append(each.after - each.before)
    return fmean(map(fmean, by_session.values())) if by_session else None


def _flip(change: Change, verdict: _Verdict) -> VerdictFlip:
    return VerdictFlip(
        change=change,
        trace_id=verdict.now.subject_id,
        session_id=verdict.now.session_id,
        name=verdict.now.name,
        before=verdict.before,
        after=verdict.after,
        reason=verdict.now.outcome.reason,
    )
