"""Draw traces for the check of the judge for bias, change them, and estimate what asking about them takes."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, TypeVar

from agenteval_collector.config.evaluators import JudgedConfig
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.values import Section
from agenteval_collector.judge.bias import CHANGES, unchanged
from agenteval_collector.judge.budget import PriceList
from agenteval_collector.judge.canaries import recheck
from agenteval_collector.judge.frozen import shown_whole, written
from agenteval_collector.judge.judgements import Load
from agenteval_collector.judge.prompt.encoding import tokens
from agenteval_collector.judge.referrals import JudgedEvaluator
from agenteval_collector.model.bias import Change, Cost
from agenteval_collector.model.judge_jobs import JudgeExchange, JudgeJob
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Score

S = TypeVar("S", bound=Section)

_REQUESTS: Final = 5
"""Requests of a vote, where none of a trace are known: the most that it takes, so that the estimate is not too low."""
_REPLY_TOKENS: Final = 1024
"""Tokens of a reply, where none are known: more than a reply takes, for the same reason."""


@dataclass(frozen=True, slots=True)
class DrawnTrace:
    """A trace with the scores that the judge gave it. `job` asks for the same scores again."""

    job: JudgeJob
    trace: Trace
    scores: Mapping[str, float]


def draw_traces(
    judged: Iterable[Iterable[Evaluation]],
    evaluators: Mapping[str, JudgedEvaluator],
    load: Load,
    *,
    limit: int,
    seed: int,
    now: int,
) -> list[DrawnTrace]:
    """Draw at most `limit` of the `judged` traces at random, each of another session, as `load` still reads them.

    `judged` has the judge's scores by trace. Those of questions that have changed since are left out.
    """
    candidates = [scores for each in judged if (scores := _current(each, evaluators))]
    random.Random(seed).shuffle(candidates)
    drawn: dict[str, DrawnTrace] = {}
    for scores in candidates:
        if len(drawn) == limit:
            break
        first = scores[0]
        asked_by = [evaluators[each.name] for each in scores]
        job = recheck(first.subject_id, first.session_id, first.revision, asked_by, now)
        if first.session_id not in drawn and (trace := load(job)) is not None:
            values = {each.name: each.outcome.value for each in scores if isinstance(each.outcome, Score)}
            drawn[first.session_id] = DrawnTrace(job, shown_whole(trace), values)
    return list(drawn.values())


def changed(drawn: Iterable[DrawnTrace], change: Change) -> Iterator[tuple[JudgeJob, Trace]]:
    """Yield each trace with the change made. Leave out a trace that the change does not touch, unless the traces stay
    as they are and the judge differs."""
    for each in drawn:
        trace = CHANGES[change](each.trace)
        if CHANGES[change] is unchanged or written(trace) != written(each.trace):
            yield each.job, trace


def estimate(
    change: Change,
    drawn: Sequence[DrawnTrace],
    asked: Sequence[Sequence[JudgeExchange]],
    settings: Settings,
    models: Iterable[str],
) -> Cost:
    """Estimate what asking about the changed traces takes, by what was `asked` about these traces before.

    Where nothing of that is kept, it is the most that can be asked. `models` are those that will be asked.
    """
    judge = settings.judge
    traces = sum(1 for _ in changed(drawn, change))
    known = [_tokens(each) for exchanges in asked for each in exchanges]
    sent, replied = zip(*known, strict=True) if known else ([judge.trace_tokens], [_REPLY_TOKENS])
    requests = round(traces * (fmean(map(len, asked)) if asked else _REQUESTS * judge.votes))
    tokens_in, tokens_out = round(requests * fmean(sent)), round(requests * fmean(replied))
    # Where several models share the questions, the dearest is counted.
    prices = [PriceList(judge.prices).usd(model, tokens_in, tokens_out) for model in models]
    priced = [price for price in prices if price is not None]
    return Cost(
        change=change,
        traces=traces,
        requests=requests,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        usd=max(priced) if len(priced) == len(prices) else None,
    )


def settings_for(change: Change, settings: Settings) -> Settings:
    """Return the settings by which the judge is asked about traces with this change."""
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


def _tokens(asked: JudgeExchange) -> tuple[int, int]:
    """Return the tokens of a request and its reply. Estimate them where an earlier answer was used again."""
    if asked.input_tokens and asked.output_tokens:
        return asked.input_tokens, asked.output_tokens
    return tokens(asked.instructions) + tokens(asked.data), tokens(asked.reply or "")


def _current(scores: Iterable[Evaluation], evaluators: Mapping[str, JudgedEvaluator]) -> list[Evaluation]:
    """Return the scores that answer the questions as they are asked now."""
    return [each for each in scores if each.name in evaluators and each.version == evaluators[each.name].version]


def _with(section: S, **changes: Any) -> S:
    return section.model_copy(update=changes)
