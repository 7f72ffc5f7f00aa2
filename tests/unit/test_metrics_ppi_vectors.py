"""The corrected rate of passing beside what the authors of PPI++ compute (tests/data/vectors/prediction_powered.json).

Every trace is a session here, and every trace as likely to be labelled: there both estimate the same. What differs:

- The weight of the judge. The authors take the spread of its verdicts from all traces as one sample; ours is that of
  the estimate itself over sessions, which holds where traces of a session are alike, and where labels were drawn with
  unequal chances. They agree exactly where the judge passes the same share of both parts, but for n - 1, and the less
  the more these shares are apart.
- A weight for the labelled traces among those judged: the authors have them in the labelled sample only, we count
  them among the judged. So their `lam` is our weight times the share of traces without a label.
- The interval. Theirs is the normal one, leaves [0, 1] near its edges, and is no number where nothing varies. Ours is
  in Wilson's form, by t, with one more error of the judge than was seen.
"""

from itertools import chain, repeat
from math import sqrt
from typing import Any

import pytest
from scipy.special import ndtri

from otel_agenteval.metrics.pass_rate import JudgedTrace, _power_tuned, _Table, pass_rate
from tests.support.vectors import vectors

CASES = vectors("prediction_powered.json")["cases"]
BY_NAME = {case["name"]: case for case in CASES}
DEFINED = [case for case in CASES if case["estimate"] is not None]
UNLIKE = BY_NAME["the judge passes far less of what has no label"]
SAME_SHARE = BY_NAME["the judge passes the same share of both parts"]
Z = float(ndtri(0.975))


def traces(case: Any) -> list[JudgedTrace]:
    labelled, others = case["labelled"], case["unlabelled"]
    chance = sum(labelled) / sum([*labelled, *others])
    verdicts = chain(
        *(repeat(verdict, n) for verdict, n in zip([(1, 1), (1, 0), (0, 1), (0, 0)], labelled, strict=True)),
        *(repeat((verdict, None), n) for verdict, n in zip((1, 0), others, strict=True)),
    )
    return [
        JudgedTrace(str(at), bool(passed), None if label is None else bool(label), 1.0 if label is None else chance)
        for at, (passed, label) in enumerate(verdicts)
    ]


def tuned(case: Any) -> tuple[float, float, float]:
    """Our estimate, the weight of the judge as `lam` counts it, and the standard error."""
    estimate, trust, variance = _power_tuned(_Table(traces(case)))
    without_label = sum(case["unlabelled"]) / sum([*case["labelled"], *case["unlabelled"]])
    return estimate, trust * without_label, sqrt(variance)


def standard_error(case: Any) -> float:
    low, high = case["interval"]
    return float(high - low) / 2 / Z


def named(case: Any) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", DEFINED, ids=named)
def test_for_its_weight_each_estimate_is_that_of_the_authors(case: Any) -> None:
    """Both move from the labels' own rate, by the weight times the same difference."""
    passed, _, missed, _ = case["labelled"]
    of_labels = (passed + missed) / sum(case["labelled"])
    estimate, lam, _ = tuned(case)
    assert (estimate - of_labels) * case["lam"] == pytest.approx((case["estimate"] - of_labels) * lam, abs=1e-12)


def test_where_the_parts_are_unlike_ours_takes_more_of_a_judge_without_an_error() -> None:
    estimate, lam, error = tuned(UNLIKE)
    assert (UNLIKE["lam"], lam) == pytest.approx((0.66, 0.87), abs=0.03)
    of_judge = (40 + 300) / 500
    assert of_judge < estimate < UNLIKE["estimate"]
    assert error < standard_error(UNLIKE)


@pytest.mark.parametrize("case", [case for case in DEFINED if case is not UNLIKE], ids=named)
def test_estimate_weight_and_standard_error_are_those_of_the_authors(case: Any) -> None:
    estimate, lam, error = tuned(case)
    theirs = standard_error(case)
    assert estimate == pytest.approx(case["estimate"], abs=theirs / 10)
    assert lam == pytest.approx(case["lam"], abs=0.06)
    assert error == pytest.approx(theirs, rel=0.02)
    assert pass_rate(traces(case)).estimate == estimate


def test_they_agree_exactly_where_the_judge_passes_the_same_share_of_both_parts() -> None:
    n = sum([*SAME_SHARE["labelled"], *SAME_SHARE["unlabelled"]])
    estimate, lam, error = tuned(SAME_SHARE)
    assert estimate == pytest.approx(SAME_SHARE["estimate"], rel=1e-12)
    assert lam * (n - 1) / n == pytest.approx(SAME_SHARE["lam"], rel=1e-12)
    assert error == pytest.approx(standard_error(SAME_SHARE), rel=1e-6)


def test_with_many_labels_the_intervals_are_the_same() -> None:
    case = BY_NAME["many labels"]
    interval = pass_rate(traces(case)).interval
    assert interval == pytest.approx(tuple(case["interval"]), abs=standard_error(case) / 20)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_ours_is_wider_and_stays_between_zero_and_one(case: Any) -> None:
    found = pass_rate(traces(case))
    assert found.interval is not None
    low, high = found.interval
    assert 0.0 <= low < high <= 1.0
    if case["estimate"] is not None and max(case["interval"]) < 1.0:
        theirs = case["interval"][1] - case["interval"][0]
        assert 0.97 * theirs < high - low < 1.6 * theirs


def test_near_the_edge_theirs_leaves_the_unit_interval_or_is_no_number() -> None:
    """Why ours is not theirs."""
    assert BY_NAME["nearly all pass"]["interval"][1] > 1.0
    assert BY_NAME["all pass"]["interval"] == BY_NAME["the judge passes everything"]["interval"] == [None, None]
