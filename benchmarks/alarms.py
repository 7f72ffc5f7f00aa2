"""False alarms of the tests that tell versions of an agent apart, and the time until they find a real drop.

Three tests are tried again and again; the seed is fixed. The first is `compare_reliability` on two versions that are
the same (A/A). The second is the evidence that a rate has dropped from its value in 1,000 trials before. It is looked
at after every trial, where the rate has dropped and where it has not. The third is all the evidence about a version,
from seven evaluators and every kind of finding: where nothing got worse, and where one evaluator fell.

    python -m benchmarks.alarms [--trials TRIALS] [--looks LOOKS] [--json]
"""

import numpy as np
from agenteval_collector.config.findings import KINDS
from agenteval_collector.figures.regressions import MOST_SESSIONS, OF_KINDS, OF_OTHERS, OF_PRIMARY
from numpy.typing import NDArray
from scipy.special import ndtri, xlogy

from benchmarks.harness import arguments, report
from otel_agenteval.metrics import Run, compare_reliability
from otel_agenteval.metrics.regression import LEVEL, regression_evidence
from otel_agenteval.metrics.runs import Bools, Floats

ALARM = 1 / LEVEL
BEFORE = 1000
TASKS, RUNS = 20, 5
EVALUATORS = 7
SHARES = [OF_PRIMARY, *[OF_OTHERS / (EVALUATORS - 1)] * (EVALUATORS - 1), *[OF_KINDS / len(KINDS)] * len(KINDS)]
ALIKE = 0.7
"""The correlation of the latent values behind a session's evaluators and findings, where these are correlated."""

Random = np.random.Generator
Counts = NDArray[np.int_]


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, trials=500, looks=10_000)
    trials = range(given.trials)
    results: dict[str, float | int | str] = {}
    random = np.random.default_rng(13)
    results["A/A: decided in any figure"] = float(np.mean([told_apart(random) for _ in trials]))
    for rate in (0.5, 0.9, 0.99):
        alarms = [first_alarm_of_rate(random, rate, rate, given.looks) is not None for _ in trials]
        results[f"rate stays {rate}: alarms in {given.looks} looks"] = float(np.mean(alarms))
    found = [first_alarm_of_rate(random, 0.9, 0.8, given.looks) or given.looks for _ in trials]
    results["0.9 -> 0.8: trials until it is found, median"] = float(np.median(found))
    for alike, shares in ((0.0, SHARES), (ALIKE, SHARES), (0.0, [1.0] * len(SHARES))):
        alarms = [first_alarm_of_version(random, alike=alike, shares=shares) is not None for _ in trials]
        level = "one level" if shares is SHARES else "a level each"
        results[f"version, {level}, correlation {alike}: alarms"] = float(np.mean(alarms))
    found = [first_alarm_of_version(random, drop=0.1) or MOST_SESSIONS for _ in trials]
    results["version, one level, primary evaluator 0.9 -> 0.8: sessions until an alarm, median"] = float(
        np.median(found)
    )
    report(f"Alarms over {given.trials} trials each", results, as_json=given.json)


def told_apart(random: Random) -> bool:
    """Tell whether two versions that are the same are told apart in any figure."""
    rates = random.beta(2, 1.2, TASKS)
    comparison = compare_reliability(runs(random, rates), runs(random, rates))
    return any(figure.decided for figure in comparison.figures.values())


def runs(random: Random, rates: Floats) -> list[Run]:
    """Draw runs of tasks that succeed at these rates, with all that figures rest on."""
    return [
        Run(
            task_id=str(task),
            run_id=str(number),
            success=(success := bool(random.random() < rate)),
            confidence=float(random.beta(4, 2) if success else random.beta(2, 2)),
            actions=tuple("abc"[at] for at in random.integers(0, 3, 3)),
            resources={"cost": float(random.lognormal())},
            violations=[] if random.random() < 0.8 else [("c", "low")],
        )
        for task, rate in enumerate(rates)
        for number in range(RUNS)
    ]


def first_alarm_of_rate(random: Random, before: float, after: float, looks: int) -> int | None:
    """Return the trial after which the evidence says that a rate has dropped; None within `looks` trials."""
    return _first_alarm(int(random.binomial(BEFORE, before)), random.random(looks) < after, share=1.0)


def first_alarm_of_version(
    random: Random, *, alike: float = 0.0, drop: float = 0.0, shares: list[float] = SHARES
) -> int | None:
    """Return the session after which any evidence says that a version is worse; None if none does.

    It looks at `MOST_SESSIONS` sessions at most. `drop` is how much the rate of the primary evaluator falls from 0.9.
    `shares` are the parts of the level that the evaluators have, and then the kinds of findings.
    """
    rates = np.concatenate([[0.9], random.uniform(0.7, 0.98, EVALUATORS - 1), random.uniform(0.9, 1.0, len(KINDS))])
    before = _sessions(random, rates, BEFORE, alike)
    rates[0] -= drop
    after = _sessions(random, rates, MOST_SESSIONS, alike)
    alarms = [_first_alarm(int(b.sum()), a, share) for b, a, share in zip(before, after, shares, strict=True)]
    return min((each for each in alarms if each is not None), default=None)


def _sessions(random: Random, rates: Floats, number: int, alike: float) -> Bools:
    """Draw for each rate which of `number` sessions pass. The result has the shape (rates, sessions)."""
    behind = np.sqrt(1 - alike) * random.standard_normal((len(rates), number))
    passing: Bools = behind + np.sqrt(alike) * random.standard_normal(number) < ndtri(rates)[:, None]
    return passing


def _first_alarm(known: int, passed: Bools, share: float) -> int | None:
    successes = np.cumsum(passed, dtype=np.int_)
    # Only a failure raises the evidence. So it is enough to look after each failure.
    failures = np.flatnonzero(~passed) + 1
    after = successes[failures - 1]
    # The evidence is at most the largest likelihood ratio against the common rate. Below an alarm it is not computed.
    together = _likelihood(known + after, BEFORE + failures)
    most = _likelihood(known, BEFORE) + _likelihood(after, failures) - together + np.log(share)
    for n, count in zip(failures[most >= np.log(ALARM)], after[most >= np.log(ALARM)], strict=True):
        if regression_evidence(BEFORE, known, int(n), int(count), share) >= ALARM:
            return int(n)
    return None


def _likelihood(successes: Counts | int, trials: Counts | int) -> Floats:
    """Return the logarithm of the largest likelihood of so many successes."""
    rates = np.asarray(successes) / trials
    found: Floats = xlogy(successes, rates) + xlogy(trials - np.asarray(successes), 1.0 - rates)
    return found


if __name__ == "__main__":
    main()
