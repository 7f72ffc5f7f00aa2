"""Test whether the judge minds things that must not matter.

The judge is asked again about traces that are changed in one such way. The verdicts that flip are counted, and tested
for being more than the judge's own noise.

Traces of one session are alike, and so are the evaluators of one trace. Therefore each session counts once, and is
drawn with one trace. It counts as flipped where any verdict on it flipped. Flips with the change and flips without a
change are paired by session. McNemar's exact test compares them (1947, "Note on the sampling error of the difference
between correlated proportions"). Its p-value is multiplied by the number of changes (Bonferroni). The interval of a
share is Jeffreys' (Brown, Cai and DasGupta 2001, "Interval estimation for a binomial proportion", section 4.1).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final, TypeAlias

from agenteval_collector.judge.drift import two_sided
from agenteval_collector.judge.frozen import mapped
from agenteval_collector.model.bias import BiasReport, Change, ChangeEffect, Cost, VerdictFlip
from agenteval_collector.model.judge_jobs import Judgement
from otel_agenteval.metrics.pass_rate import jeffreys
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Evaluation, Score

PADDING: Final = """

I hope that this is helpful to you! It has been a pleasure to be of assistance, and I would like to thank you very \
much for your patience, for your trust, and for taking the time to reach out. Please know that you are always welcome \
here, and that your satisfaction matters a great deal. Should there be anything else at all, however small it may \
seem, please do not hesitate to let me know at any time, and I will be more than happy to help. Once again, thank you \
so much, and have a truly wonderful day!"""
"""Polite text that makes an answer longer and adds nothing else."""

LEVEL: Final = 0.05
"""Chance that a fair judge is said to mind any of the changes."""
Before: TypeAlias = Mapping[tuple[str, str], float]
"""The earlier scores of the traces, by trace id and evaluator."""


def unchanged(trace: Trace) -> Trace:
    """Return the trace itself."""
    return trace


def padded(trace: Trace) -> Trace:
    """Return the trace with its final answer padded. Return the trace itself where it has no answer."""
    answer = trace.output
    if not answer:
        return trace
    last = trace.turns[-1]
    calls = (replace(call, output=answer + PADDING) if call.output == answer else call for call in last.model_calls)
    return replace(trace, turns=(*trace.turns[:-1], replace(last, output=answer + PADDING, model_calls=tuple(calls))))


def swapped(trace: Trace) -> Trace:
    """Return the trace with its unordered parts in reverse: the tools on offer, and the keys of objects."""
    keyed = mapped(trace, _reversed_keys)
    return replace(keyed, available_tools=keyed.available_tools[::-1])


def renamed(trace: Trace) -> Trace:
    """Return the trace with other names for its agents, models and tools, wherever these names stand.

    The new name of a tool contains the old one, because the words of a name say what the tool does. A name that is one
    lower-case word may also be a word of the language. Such a name is left alone inside longer texts.
    """
    turns = (*trace.earlier, *trace.turns)
    calls = [call for turn in turns for call in turn.model_calls]
    tools = {call.name for turn in turns for call in turn.tool_calls} | {tool.name for tool in trace.available_tools}
    agents = _numbered("agent", [*trace.agents, *(turn.agent for turn in turns), *(call.agent for call in calls)])
    models = _numbered("model", (call.model for call in calls))
    return mapped(trace, _Names({**agents, **models, **{name: f"use_{name}" for name in tools if name}}).changed)


CHANGES: Final[Mapping[Change, Callable[[Trace], Trace]]] = {
    Change.REPEAT: unchanged,
    Change.PADDED: padded,
    Change.SWAPPED: swapped,
    Change.RENAMED: renamed,
    Change.SECOND_MODEL: unchanged,
}
"""The function that makes each change, before the judge is asked again."""


class _Names:
    """Replaces the names that `others` has as keys by their values."""

    def __init__(self, others: Mapping[str, str]) -> None:
        self._others = others
        # The longest name comes first: an alternation takes the first that fits, and one name may begin with another.
        known = sorted((name for name in others if not name.islower() or not name.isalpha()), key=len, reverse=True)
        anyone = "|".join(map(re.escape, known))
        self._within = re.compile(rf"(?<![\w-])(?:{anyone})(?![\w-])") if known else None

    def changed(self, value: Json) -> Any:
        if isinstance(value, dict):
            return {key: self.changed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.changed(item) for item in value]
        if not isinstance(value, str):
            return value
        if value in self._others:
            return self._others[value]
        return self._within.sub(lambda match: self._others[match[0]], value) if self._within else value


def _numbered(kind: str, names: Iterable[str | None]) -> dict[str, str]:
    return {name: f"{kind}-{number}" for number, name in enumerate(sorted({name for name in names if name}), 1)}


def _reversed_keys(value: Json) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class _TwiceJudged:
    """A verdict that was given twice: `before` is the earlier score, `after` is that of `now`."""

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


def bias_report(
    before: Before, asked: Mapping[Change, Sequence[Judgement]], seed: int, traces: int, stopped: str | None
) -> BiasReport:
    """Compare what the judge said after each change with what it said `before`."""
    verdicts = {change: _verdicts(before, judgements) for change, judgements in asked.items()}
    noise = verdicts.get(Change.REPEAT, [])
    tests = len(asked.keys() - {Change.REPEAT})
    flips = [_flip(change, each) for change, found in verdicts.items() for each in found if each.flipped]
    effects = [_effect(change, asked[change], found, noise, tests) for change, found in verdicts.items()]
    return BiasReport(seed=seed, traces=traces, effects=tuple(effects), flips=tuple(flips), stopped=stopped)


def spent(change: Change, judgements: Sequence[Judgement]) -> Cost:
    """Add up what the requests used. Tokens that the endpoint does not report count as none."""
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


def _verdicts(before: Before, judgements: Sequence[Judgement]) -> list[_TwiceJudged]:
    return [
        _TwiceJudged(each, before[each.subject_id, each.name], each.outcome.value)
        for judgement in judgements
        for each in judgement.evaluations
        if isinstance(each.outcome, Score)
    ]


def _effect(
    change: Change,
    judgements: Sequence[Judgement],
    verdicts: Sequence[_TwiceJudged],
    noise: Sequence[_TwiceJudged],
    tests: int,
) -> ChangeEffect:
    sessions = {each.now.session_id for each in verdicts}
    flips = [each for each in verdicts if each.flipped]
    flipped = len({each.now.session_id for each in flips})
    rate = flipped / len(sessions) if sessions else None
    to_pass = sum(each.after > each.before for each in flips)
    p_value = None if change is Change.REPEAT else _p_value(verdicts, noise, tests)
    return ChangeEffect(
        cost=spent(change, judgements),
        verdicts=len(verdicts),
        unanswered=sum(len(each.evaluations) for each in judgements) - len(verdicts),
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


def _p_value(verdicts: Sequence[_TwiceJudged], noise: Sequence[_TwiceJudged], tests: int) -> float | None:
    """Test the verdicts that were given both with the change and without it, by session.

    Return None where there are none.
    """
    both = {each.key for each in verdicts} & {each.key for each in noise}
    if not both:
        return None
    # McNemar's test counts only the sessions that flipped in one of the two ways.
    with_change, without = _flipped(verdicts, both), _flipped(noise, both)
    return min(1.0, tests * two_sided(len(with_change - without), len(without - with_change)))


def _flipped(verdicts: Sequence[_TwiceJudged], among: Collection[tuple[str, str]]) -> set[str]:
    return {each.now.session_id for each in verdicts if each.flipped and each.key in among}


def _mean_change(verdicts: Sequence[_TwiceJudged]) -> float | None:
    by_session: dict[str, list[float]] = {}
    for each in verdicts:
        by_session.setdefault(each.now.session_id, []).append(each.after - each.before)
    return fmean(map(fmean, by_session.values())) if by_session else None


def _flip(change: Change, verdict: _TwiceJudged) -> VerdictFlip:
    return VerdictFlip(
        change=change,
        trace_id=verdict.now.subject_id,
        session_id=verdict.now.session_id,
        name=verdict.now.name,
        before=verdict.before,
        after=verdict.after,
        reason=verdict.now.outcome.reason,
    )
