"""The corrected rate of passing: who is believed, and whether the intervals hold what they promise."""

import math

import numpy as np
import pytest

from benchmarks.coverage import judged_traces, wilson_width
from otel_agenteval.metrics.agreement import LabelledScore, agreement
from otel_agenteval.metrics.pass_rate import JudgedTrace, PassRate, jeffreys, pass_rate

JUDGES = {"good": (0.95, 0.95), "mild": (0.85, 0.75), "weak": (0.7, 0.6), "useless": (0.5, 0.5)}
"""Sensitivity and specificity."""


def covers(found: PassRate, rate: float) -> bool:
    assert found.interval is not None
    return found.interval[0] <= rate <= found.interval[1]


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize(
    ("labels", "rate", "judge", "alike", "stratified"),
    [
        (20, 0.5, "weak", 0.0, False),
        (20, 0.95, "good", 0.0, False),
        (20, 0.9, "mild", 0.5, True),
        (50, 0.5, "useless", 0.5, False),
        (50, 0.95, "good", 0.0, False),
        (50, 0.9, "mild", 0.5, True),
        (100, 0.7, "weak", 0.0, True),
        (100, 0.95, "mild", 0.5, False),
        (500, 0.9, "mild", 0.5, True),
        (500, 0.6, "good", 0.0, False),
    ],
)
def test_intervals_hold_the_true_rate(labels: int, rate: float, judge: str, alike: float, stratified: bool) -> None:
    random = np.random.default_rng(13)
    draws = [judged_traces(random, rate, JUDGES[judge], labels, alike=alike, stratified=stratified) for _ in range(400)]
    assert sum(covers(pass_rate(draw), rate) for draw in draws) >= 0.92 * len(draws)


@pytest.mark.slow
def test_a_mild_judge_with_fifty_labels_is_narrower_than_the_labels_alone_and_its_own_rate_is_wrong() -> None:
    random = np.random.default_rng(14)
    draws = [judged_traces(random, 0.7, JUDGES["good"], 50) for _ in range(100)]
    widths = [high - low for low, high in (pass_rate(draw).interval or (0.0, 1.0) for draw in draws)]
    assert np.mean(widths) < 0.9 * wilson_width(50, 35)
    judged = [sum(each.passed for each in draw) / len(draw) for draw in draws]
    corrected = [pass_rate(draw).estimate or 0.0 for draw in draws]
    assert abs(np.mean(corrected) - 0.7) < 0.01 < abs(np.mean(judged) - 0.7)


@pytest.mark.parametrize(
    ("labels", "estimator"), [(0, "uncorrected"), (19, "uncorrected"), (20, "labels"), (49, "labels"), (50, "ppi")]
)
def test_who_is_believed_depends_on_the_number_of_labels(labels: int, estimator: str) -> None:
    found = pass_rate(judged_traces(np.random.default_rng(1), 0.8, JUDGES["mild"], labels))
    assert (found.estimator, found.labelled) == (estimator, labels)
    assert (found.interval is None) is (estimator == "uncorrected") is (found.reason is not None)
    assert (found.sequence is None) is (found.interval is None)


@pytest.mark.parametrize("labels", [20, 35, 49, 50, 200])
@pytest.mark.parametrize("alike", [0.0, 0.5])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_what_holds_at_any_time_is_never_narrower_than_what_holds_once(labels: int, alike: float, rate: float) -> None:
    found = pass_rate(judged_traces(np.random.default_rng(2), rate, JUDGES["mild"], labels, alike=alike))
    assert found.interval is not None
    assert found.sequence is not None
    assert found.sequence[0] <= found.interval[0] <= found.interval[1] <= found.sequence[1]


@pytest.mark.parametrize("labels", [20, 30, 49])
def test_a_few_labels_of_a_good_judge_s_strata_tell_more_than_as_many_alone(labels: int) -> None:
    widths: dict[str, float] = {}
    for judge, (sensitivity, specificity) in {"good": (0.95, 0.95), "useless": (0.5, 0.5)}.items():
        random = np.random.default_rng(3)
        draws = [judged_traces(random, 0.7, (sensitivity, specificity), labels, stratified=True) for _ in range(40)]
        found = [pass_rate(draw) for draw in draws]
        assert {rate.estimator for rate in found} == {"labels"}
        widths[judge] = float(np.mean([rate.interval[1] - rate.interval[0] for rate in found if rate.interval]))
    low, high = jeffreys(0.7, labels)
    assert widths["good"] < 0.75 * (high - low) < widths["useless"] < 1.2 * (high - low)


def test_the_rate_of_a_few_labels_is_that_of_the_labels_in_each_stratum() -> None:
    failed = [JudgedTrace(f"f{n}", False, label=n < 2 if n < 10 else None, probability=0.2) for n in range(50)]
    passed = [JudgedTrace(f"p{n}", True, label=n < 9 if n < 10 else None, probability=0.1) for n in range(100)]
    assert pass_rate([*failed, *passed]).estimate == pytest.approx((50 * 0.2 + 100 * 0.9) / 150)


def test_labels_that_were_drawn_more_often_weigh_less() -> None:
    failed = [JudgedTrace(f"f{n}", False, label=False, probability=1.0) for n in range(25)]
    passed = [JudgedTrace(f"p{n}", True, label=True if n < 25 else None, probability=0.1) for n in range(250)]
    assert pass_rate([*failed, *passed]).estimate == pytest.approx(250 / 275)


def test_sensitivity_and_specificity_are_of_the_labelled_and_carry_their_intervals() -> None:
    traces = [
        *(JudgedTrace(f"a{n}", passed=n < 8, label=True) for n in range(10)),
        *(JudgedTrace(f"b{n}", passed=n < 3, label=False) for n in range(12)),
        *(JudgedTrace(f"c{n}", passed=True) for n in range(30)),
    ]
    found = pass_rate(traces)
    assert (found.sensitivity, found.specificity) == (pytest.approx(0.8), pytest.approx(0.75))
    same = agreement(
        LabelledScore(float(t.passed), float(t.label), 0.5, 0, t.session_id) for t in traces if t.label is not None
    )
    assert found.sensitivity_interval == pytest.approx(same.intervals["sensitivity"])
    assert found.specificity_interval == pytest.approx(same.intervals["specificity"])


@pytest.mark.parametrize(("good", "bad"), [(9, 9), (9, 10), (10, 9), (10, 10), (0, 10), (8, 0)])
def test_below_ten_labels_of_a_kind_nothing_is_said_of_the_judge_on_it(good: int, bad: int) -> None:
    labels = [True] * good + [False] * bad
    found = pass_rate(JudgedTrace(str(n), n % 2 == 0, label) for n, label in enumerate(labels))
    assert (found.sensitivity is None) is (found.sensitivity_interval is None) is (good < 10)
    assert (found.specificity is None) is (found.specificity_interval is None) is (bad < 10)


def test_a_share_of_one_is_one_whatever_the_chances() -> None:
    chances = {True: 31 / 317, False: 23 / 41}
    traces = [JudgedTrace(str(n), n < 31, True, chances[n < 31]) for n in range(54)]
    assert pass_rate(traces).estimate == 1.0
    right = [JudgedTrace(str(n), n < 31, n < 31, chances[n < 31]) for n in range(54)]
    found = pass_rate(right)
    assert (found.sensitivity, found.specificity) == (1.0, 1.0)


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize(
    ("labels", "rate", "judge", "stratified"),
    [(50, 0.5, "useless", False), (60, 0.7, "mild", True), (100, 0.9, "mild", True)],
)
def test_intervals_hold_how_well_the_judge_tells_good_from_bad(
    labels: int, rate: float, judge: str, stratified: bool
) -> None:
    random = np.random.default_rng(15)
    draws = 100
    found = [
        pass_rate(judged_traces(random, rate, JUDGES[judge], labels, alike=0.3, stratified=stratified))
        for _ in range(draws)
    ]
    for true, intervals in zip(
        JUDGES[judge],
        ([each.sensitivity_interval for each in found], [each.specificity_interval for each in found]),
        strict=True,
    ):
        known = [each for each in intervals if each is not None]
        assert sum(low <= true <= high for low, high in known) >= 0.9 * len(known)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("labels", [20, 49, 50, 60])
def test_where_all_say_the_same_there_is_still_an_interval(labels: int, said: bool) -> None:
    found = pass_rate([JudgedTrace(str(n), said, said) for n in range(labels)])
    assert found.estimate == said
    assert found.interval is not None
    assert found.interval[1 if said else 0] == said
    assert 0.02 < found.interval[1] - found.interval[0] < 0.2


def test_labels_of_one_session_are_worth_one() -> None:
    found = pass_rate([JudgedTrace("only", True, True) for _ in range(30)])
    assert found.interval is not None
    assert found.interval[0] < 0.3


def test_without_traces_there_is_no_rate() -> None:
    found = pass_rate([])
    assert (found.estimate, found.interval, found.estimator, found.sensitivity) == (None, None, "uncorrected", None)


@pytest.mark.parametrize("chance", [0.0, -0.5, 1.5, math.nan])
def test_a_chance_that_is_none_is_refused(chance: float) -> None:
    with pytest.raises(ValueError, match="probability is"):
        JudgedTrace("s", True, True, chance)
