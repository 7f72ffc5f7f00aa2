"""What is said of the judge from verdicts before and after a change."""

import random
from collections.abc import Mapping

import pytest
from agenteval_collector.judge.bias import LEVEL, bias_report
from agenteval_collector.judge.canaries import recheck
from agenteval_collector.judge.referrals import JudgedEvaluator
from agenteval_collector.model.bias import BiasReport, Change, ChangeEffect
from agenteval_collector.model.judge_jobs import Judgement
from scipy.stats import beta

from otel_agenteval.metrics.pass_rate import jeffreys
from otel_agenteval.outcome import Failure
from tests.support.referring import judged, judgement

BY = JudgedEvaluator(name="confidence", version="1", model="m", threshold=0.5)
PASS, FAIL = 0.9, 0.1


def said(scores: Mapping[int, float | None]) -> list[Judgement]:
    """Judgements by session, each of one trace; None: the judge gave no answer."""
    failure = Failure(error_type="malformed", reason="no valid reply")
    return [
        judgement(recheck(f"t{number}", f"s{number}", 1, [BY], 0), failure if score is None else judged(score))
        for number, score in scores.items()
    ]


def report(before: Mapping[int, float], **after: Mapping[int, float | None]) -> BiasReport:
    asked = {Change(change): said(scores) for change, scores in after.items()}
    known = {(f"t{number}", "confidence"): score for number, score in before.items()}
    return bias_report(known, asked, 7, len(before), None)


def effect(found: BiasReport, change: Change) -> ChangeEffect:
    [one] = [each for each in found.effects if each.cost.change is change]
    return one


def test_flips_are_counted_each_way_with_the_mean_change_of_the_scores() -> None:
    found = report({1: PASS, 2: PASS, 3: FAIL}, repeat={1: PASS, 2: FAIL, 3: PASS}, padded={1: 0.8, 2: 0.7, 3: PASS})
    padded = effect(found, Change.PADDED)
    assert (padded.verdicts, padded.to_pass, padded.to_fail, padded.flipped) == (3, 1, 0, 1)
    assert padded.mean_change == pytest.approx((-0.1 - 0.2 + 0.8) / 3)
    assert [(flip.change, flip.trace_id) for flip in found.flips] == [
        (Change.REPEAT, "t2"), (Change.REPEAT, "t3"), (Change.PADDED, "t3"),
    ]  # fmt: skip


def test_only_flips_that_the_judge_does_not_make_by_itself_count_as_bias() -> None:
    before = dict.fromkeys(range(12), FAIL)
    turned = dict.fromkeys(range(12), PASS)
    assert effect(report(before, repeat=before, padded=turned), Change.PADDED).is_beyond_noise
    same = effect(report(before, repeat=turned, padded=turned), Change.PADDED)
    assert (same.is_beyond_noise, same.p_value, same.flipped) == (False, 1.0, 12)


def test_the_p_value_is_that_of_mcnemar_times_the_number_of_changes() -> None:
    before = dict.fromkeys(range(10), FAIL)
    some = {number: PASS if number < 6 else FAIL for number in range(10)}
    found = report(before, repeat=before, padded=some, renamed=before)
    assert effect(found, Change.PADDED).p_value == pytest.approx(2 * 2 / 2**6)
    assert effect(found, Change.REPEAT).p_value is None


def test_verdicts_that_were_not_given_are_counted_and_not_compared() -> None:
    found = report({1: PASS, 2: PASS}, repeat={1: PASS, 2: None}, padded={1: None, 2: FAIL})
    padded = effect(found, Change.PADDED)
    assert (padded.verdicts, padded.unanswered, padded.p_value) == (1, 1, None)
    nothing = effect(report({1: PASS}, repeat={1: None}), Change.REPEAT)
    assert (nothing.rate, nothing.interval, nothing.mean_change) == (None, None, None)


def test_a_session_counts_once_however_many_of_its_verdicts_flip() -> None:
    other = JudgedEvaluator(name="politeness", version="1", model="m", threshold=0.5)
    both = judgement(recheck("t1", "s1", 1, [BY, other], 0), judged(FAIL))
    asked = {Change.REPEAT: [both]}
    [found] = bias_report({("t1", "confidence"): PASS, ("t1", "politeness"): PASS}, asked, 0, 1, None).effects
    assert (found.verdicts, found.to_fail, found.sessions, found.flipped, found.rate) == (2, 2, 1, 1, 1.0)


@pytest.mark.parametrize(("count", "of"), [(1, 10), (5, 10), (9, 10)])
def test_the_interval_is_that_of_jeffreys(count: int, of: int) -> None:
    posterior = beta(count + 0.5, of - count + 0.5)
    assert jeffreys(count / of, of) == pytest.approx((posterior.ppf(0.025), posterior.ppf(0.975)))


def test_the_interval_reaches_the_edge_where_none_or_all_flip() -> None:
    none, every = jeffreys(0.0, 10), jeffreys(1.0, 10)
    assert none[0] == 0.0 < none[1] < 0.3
    assert 0.7 < every[0] < every[1] == 1.0


@pytest.mark.slow
def test_a_fair_but_noisy_judge_is_called_biased_at_most_at_the_level() -> None:
    chance, called, trials = random.Random(26), 0, 400
    before = dict.fromkeys(range(30), PASS)
    for _ in range(trials):

        def noisy() -> dict[int, float]:
            return {number: FAIL if chance.random() < 0.3 else PASS for number in before}

        found = report(before, repeat=noisy(), padded=noisy(), swapped=noisy(), renamed=noisy())
        called += any(each.is_beyond_noise for each in found.effects)
    assert called <= LEVEL * trials
