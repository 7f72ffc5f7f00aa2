"""pass@k, pass^k, and what is believed of them."""

import math
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from otel_agenteval.metrics import Run, pass_at_k, pass_hat_k, pass_k_posterior, reliability_report
from tests.support.vectors import vectors

VECTORS = vectors("pass_at_k_and_tools.json")


def valid(case: dict[str, Any]) -> bool:
    return case["c"] <= case["n"] and isinstance(case["k"], int) and case["k"] >= 1


@pytest.mark.parametrize("case", VECTORS["frequentist"], ids=lambda case: f"{case['n']}-{case['c']}-{case['k']}")
def test_both_estimators_agree_with_the_authors_code(case: dict[str, Any]) -> None:
    attempts = case["n"], case["c"], case["k"]
    for function, name in ((pass_at_k, "pass_at_k"), (pass_hat_k, "pass_pow_k")):
        if not valid(case):
            with pytest.raises(ValueError, match="is"):
                function(*attempts)
            continue
        # The authors give 0 where nothing was attempted.
        assert function(*attempts) == (pytest.approx(case[name], abs=1e-12) if case["n"] else None)
        unbiased = case[f"other_convention_unbiased_{name}"] if case["k"] <= case["n"] else None
        assert function(*attempts, estimator="unbiased") == pytest.approx(unbiased, abs=1e-12)


UNIFORM = [case for case in VECTORS["bayesian"] if case["beta_prior"] == [1.0, 1.0]]


@pytest.mark.parametrize("case", UNIFORM, ids=lambda case: f"{case['n']}-{case['c']}-{case['k']}-{case['ci_level']}")
def test_the_posterior_is_the_exact_one(case: dict[str, Any]) -> None:
    found = pass_k_posterior(case["n"], case["c"], case["k"], level=case["ci_level"])
    exact = case["exact_posterior"]
    assert (found.pass_at_k, found.pass_hat_k) == pytest.approx((exact["pass_at_k"], exact["pass_pow_k"]), abs=1e-12)
    for interval, name in ((found.pass_at_k_interval, "pass_at_k"), (found.pass_hat_k_interval, "pass_pow_k")):
        assert interval == pytest.approx((exact[f"{name}_ci_low"], exact[f"{name}_ci_high"]), abs=1e-9)


@pytest.mark.parametrize("case", UNIFORM, ids=lambda case: f"{case['n']}-{case['c']}-{case['k']}-{case['ci_level']}")
def test_what_the_authors_sample_lies_as_near_as_sampling_gets(case: dict[str, Any]) -> None:
    found, sampled = pass_k_posterior(case["n"], case["c"], case["k"]), case["code_seed42_first_conversation"]
    off = case["max_abs_dev_code_vs_exact_13_seeds"]
    assert found.pass_at_k == pytest.approx(sampled["pass_at_k"], abs=1.5 * off["pass_at_k"] + 1e-12)
    assert found.pass_hat_k == pytest.approx(sampled["pass_pow_k"], abs=1.5 * off["pass_pow_k"] + 1e-12)


@pytest.mark.parametrize("estimator", ["plugin", "unbiased"])
def test_without_an_attempt_there_is_nothing_to_say(estimator: Any) -> None:
    assert pass_at_k(0, 0, 1, estimator) is None
    assert pass_hat_k(0, 0, 1, estimator) is None
    posterior = pass_k_posterior(0, 0, 1)
    assert (posterior.pass_at_k, posterior.pass_at_k_interval) == (None, None)
    assert (posterior.pass_hat_k, posterior.pass_hat_k_interval) == (None, None)
    assert posterior.reason == "no attempt was made"


@pytest.mark.parametrize(
    ("attempts", "message"),
    [
        pytest.param((3, 4, 1), "c is 4, more successes than the n = 3", id="more successes than attempts"),
        pytest.param((3, -1, 1), "c is -1", id="fewer successes than none"),
        pytest.param((-1, 0, 1), "n is -1", id="fewer attempts than none"),
        pytest.param((3, 1, 0), "k is 0", id="a draw of nothing"),
        pytest.param((3, 1, 2.5), r"k is 2\.5", id="a draw of a part"),
        pytest.param((3, math.nan, 1), "c is nan", id="not a number"),
        pytest.param(("3", 1, 1), "n is '3'", id="a word"),
    ],
)
def test_bad_attempts_are_refused(attempts: Any, message: str) -> None:
    for function in (pass_at_k, pass_hat_k, pass_k_posterior):
        with pytest.raises(ValueError, match=message):
            function(*attempts)


def test_other_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="estimator is 'bayes'"):
        pass_at_k(3, 1, 1, "bayes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="estimator is None"):
        pass_hat_k(3, 1, 1, None)  # type: ignore[arg-type]
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="level is"):
            pass_k_posterior(3, 1, 1, level)


def test_numpy_numbers_are_numbers() -> None:
    counted: Any = np.int64(10)
    assert pass_hat_k(counted, 7, 3, "unbiased") == pytest.approx(35 / 120)


def test_a_small_chance_in_many_attempts_is_not_lost() -> None:
    assert pass_at_k(10**6, 1, 1, "unbiased") == 1e-6
    assert pass_hat_k(10**5, 10**5 - 1, 10, "unbiased") == pytest.approx(1 - 10 / 10**5, rel=1e-15)


@given(runs=st.lists(st.booleans(), min_size=1, max_size=8), k=st.integers(1, 9))
def test_the_unbiased_estimators_count_the_draws_they_stand_for(runs: list[bool], k: int) -> None:
    draws = list(combinations(runs, k))
    n, c = len(runs), sum(runs)
    assert pass_hat_k(n, c, k, "unbiased") == (float(Fraction(sum(map(all, draws)), len(draws))) if draws else None)
    assert pass_at_k(n, c, k, "unbiased") == (float(Fraction(sum(map(any, draws)), len(draws))) if draws else None)


@given(runs=st.lists(st.booleans(), min_size=1, max_size=5), k=st.integers(1, 4))
def test_the_plug_in_estimators_draw_with_replacement(runs: list[bool], k: int) -> None:
    draws = list(product(runs, repeat=k))
    n, c = len(runs), sum(runs)
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(n=st.integers(1, 40), data=st.data(), k=st.integers(1, 12), level=st.floats(0.01, 0.99))
def test_the_posterior_is_that_of_the_beta_distribution(n: int, data: st.DataObject, k: int, level: float) -> None:
    c = data.draw(st.integers(0, n))
    found = pass_k_posterior(n, c, k, level)
    rate = beta(1 + c, 1 + n - c)
    assert found.pass_hat_k == pytest.approx(quad(lambda p: p**k * rate.pdf(p), 0, 1)[0], abs=1e-7)
    assert found.pass_at_k == pytest.approx(quad(lambda p: (1 - (1 - p) ** k) * rate.pdf(p), 0, 1)[0], abs=1e-7)
    assert found.pass_hat_k_interval is not None
    assert found.pass_at_k_interval is not None
    low, high = found.pass_hat_k_interval
    assert rate.cdf(high ** (1 / k)) - rate.cdf(low ** (1 / k)) == pytest.approx(level, abs=1e-9)
    for lower, upper in (found.pass_hat_k_interval, found.pass_at_k_interval):
        assert 0.0 <= lower <= upper <= 1.0


@given(
    tasks=st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=5),
)
def test_over_tasks_it_is_the_mean_of_the_unbiased_ones(tasks: list[list[bool]]) -> None:
    report = reliability_report(
        Run(f"t{task}", str(run), success) for task, runs in enumerate(tasks) for run, success in enumerate(runs)
    )
    most = max(map(len, tasks))
    assert list(report.pass_at_k) == list(report.pass_hat_k) == list(range(1, most + 1))
    for k in range(1, most + 1):
        enough = [(len(runs), sum(runs)) for runs in tasks if len(runs) >= k]
        assert report.tasks_used[f"pass^{k}"] == report.tasks_used[f"pass@{k}"] == len(enough)
        for figures, function in ((report.pass_at_k, pass_at_k), (report.pass_hat_k, pass_hat_k)):
            values: Any = [function(n, c, k, "unbiased") for n, c in enough]
            assert figures[k] == pytest.approx(sum(values) / len(values), abs=1e-12)


def test_many_runs_of_one_task_are_reported_up_to_a_bound() -> None:
    report = reliability_report(Run("t", str(run), True) for run in range(150))
    assert len(report.pass_hat_k) == 100
    assert report.pass_hat_k[100] == 1.0
