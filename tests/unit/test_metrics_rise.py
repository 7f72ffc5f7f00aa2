"""The evidence that a rate has risen: its mean while it has not, and how soon it finds a rise."""

import random
from statistics import fmean

import pytest

from otel_agenteval.metrics.rise import NO_EVIDENCE, RISES, rise_evidence


def evidence(parts: tuple[float, ...]) -> float:
    return sum(parts) / len(parts)


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("trials", [10, 1_000])
def test_a_rate_within_its_limit_has_at_most_the_evidence_that_was_given_out(rate: float, trials: int) -> None:
    def after_a_month(seed: int) -> float:
        chance, parts = random.Random(seed), NO_EVIDENCE
        most = 0.0
        for _ in range(trials):
            parts = rise_evidence(parts, hit=chance.random() < rate, limit=0.05, weight=1 / trials)
            most = max(most, evidence(parts))
        return most

    # The most at any look, not at the end: of 10 months, one reaches 10 at most.
    assert fmean(after_a_month(seed) >= 10 for seed in range(300)) <= 0.13


def test_the_mean_of_one_step_is_what_it_was_at_the_limit() -> None:
    before = (0.5, 1.0, 2.0, 4.0)
    hit, miss = (rise_evidence(before, hit=hit, limit=0.2, weight=0.25) for hit in (True, False))
    for part, after_hit, after_miss in zip(before, hit, miss, strict=True):
        assert 0.2 * after_hit + 0.8 * after_miss == pytest.approx(part + 0.25)


def test_a_rise_to_30_percent_is_found_in_tens_of_trials() -> None:
    chance, parts, trials = random.Random(7), NO_EVIDENCE, 0
    while evidence(parts) < 200:
        parts = rise_evidence(parts, hit=chance.random() < 0.3, limit=0.03, weight=1 / 100_000)
        trials += 1
    assert trials < 60


def test_evidence_is_bounded_so_that_a_long_rise_is_forgotten() -> None:
    parts = NO_EVIDENCE
    for _ in range(10_000):
        parts = rise_evidence(parts, hit=True, limit=0.01, weight=1.0)
    assert len(parts) == len(RISES)
    assert evidence(parts) <= 1e12


@pytest.mark.parametrize("limit", [0.0, 1.0, -1.0, float("nan")])
def test_a_limit_must_be_a_rate(limit: float) -> None:
    with pytest.raises(ValueError, match="limit is"):
        rise_evidence(NO_EVIDENCE, hit=True, limit=limit, weight=0.0)


def test_a_weight_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="weight is"):
        rise_evidence(NO_EVIDENCE, hit=True, limit=0.5, weight=-1.0)
