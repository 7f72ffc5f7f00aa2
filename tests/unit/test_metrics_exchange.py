"""Whether two versions differ: exact, and no more often than the level where they do not."""

from itertools import product

import numpy as np
import pytest

from otel_agenteval.metrics import RELIABILITY_METRICS, Run, compare_reliability
from otel_agenteval.metrics.exchange import LEVEL, corrected, p_values
from otel_agenteval.metrics.safety import check_severity_weights

NAMES = (*RELIABILITY_METRICS, "pass^1", "pass^3")
WEIGHTS = check_severity_weights(None)


def version(random: np.random.Generator, rates: list[float], runs: int = 5) -> list[Run]:
    """Runs of an agent: each task succeeds at its rate, and what it did differs by chance."""
    found = []
    for task, rate in enumerate(rates):
        for number in range(runs):
            success = bool(random.random() < rate)
            found.append(
                Run(
                    task_id=str(task), run_id=str(number), success=success,
                    confidence=float(random.beta(4, 2) if success else random.beta(2, 2)),
                    actions=tuple(random.choice(list("abc"), size=random.integers(2, 5))),
                    resources={"cost": float(random.lognormal())},
                    violations=[] if random.random() < 0.8 else [("c", "low")],
                )
            )  # fmt: skip
    return found


def found(before: list[Run], after: list[Run]) -> dict[str, float]:
    return corrected(p_values(before, after, NAMES, "page", WEIGHTS), "pass^1")


def test_a_version_that_is_clearly_worse_is_told_apart() -> None:
    random = np.random.default_rng(1)
    before, after = version(random, [0.9] * 12), version(random, [0.4] * 12)
    assert found(before, after)["pass^1"] < LEVEL


def test_with_few_tasks_the_p_value_is_the_share_of_all_exchanges() -> None:
    random = np.random.default_rng(5)
    before, after = version(random, [0.9, 0.7, 0.6, 0.8]), version(random, [0.5, 0.6, 0.2, 0.9])

    def difference(exchanged: tuple[bool, ...]) -> float:
        sides: tuple[list[Run], list[Run]] = ([], [])
        for side, runs in enumerate((before, after)):
            for run in runs:
                sides[side ^ exchanged[int(run.task_id)]].append(run)
        return compare_reliability(*sides).figures["pass^1"].difference or 0.0

    observed = abs(difference((False,) * 4))
    slow = [abs(difference(each)) >= observed - 1e-9 for each in product((False, True), repeat=4)]
    assert p_values(before, after, ["pass^1"], "page", WEIGHTS)["pass^1"] == pytest.approx(np.mean(slow))


def test_others_are_corrected_for_their_number_and_never_decide_without_the_primary_one() -> None:
    given = {"first": 0.03, "a": 0.001, "b": 0.02, "c": 0.4}
    assert corrected(given, "first") == pytest.approx({"first": 0.03, "a": 0.03, "b": 0.04, "c": 0.4})
    assert min(corrected({**given, "first": 0.2}, "first").values()) == 0.2


def test_figures_that_one_version_lacks_have_none() -> None:
    with_it = [Run("t", "1", True, confidence=0.5), Run("u", "1", True, confidence=0.5)]
    without = [Run("t", "1", True), Run("u", "1", False)]
    assert p_values(with_it, without, ["P_brier", "pass^1"], "page", WEIGHTS).keys() == {"pass^1"}
    assert p_values([], [], ["pass^1"], "page", WEIGHTS) == {}
