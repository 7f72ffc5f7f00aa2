"""The published formulas of reliability over runs, as slow and as plain as they come."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, permutations, product

from scipy.spatial.distance import jensenshannon

from otel_agenteval.metrics import RESOURCES, Run


def tasks(runs: Iterable[Run], condition: str = "baseline") -> list[list[Run]]:
    found: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.condition == condition:
            found[run.task_id].append(run)
    return list(found.values())


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are defined."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def variation(values: Sequence[float]) -> float | None:
    if len(values) < 2 or not statistics.fmean(values) > 0:
        return None
    return statistics.stdev(values) / statistics.fmean(values)


def decay(value: float | None) -> float | None:
    return None if value is None else math.exp(-value)


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    if not a or not b:
        return len(a) + len(b)
    replaced = edit_distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(edit_distance(a[1:], b) + 1, edit_distance(a, b[1:]) + 1, replaced)


def outcome(task: list[Run], variant: str) -> float | None:
    outcomes = [run.success for run in task]
    if len(outcomes) < 2:
        return None
    return float(len(set(outcomes)) == 1) if variant == "page" else (2 * statistics.fmean(outcomes) - 1) ** 2


def pairs(task: list[Run]) -> list[tuple[Sequence[str], Sequence[str]]]:
    return list(combinations([run.actions for run in task if run.success and run.actions], 2))


def distribution(task: list[Run], variant: str) -> float | None:
    def similarity(a: Sequence[str], b: Sequence[str]) -> float:
        names = sorted({*a, *b})
        p, q = ([list(each).count(name) / len(each) for name in names] for each in (a, b))
        return 1 - (jensenshannon(p, q) if variant == "page" else jensenshannon(p, q, base=2) ** 2)

    return mean(similarity(a, b) for a, b in pairs(task))


def sequence(task: list[Run]) -> float | None:
    return mean(1 - edit_distance(a, b) / max(len(a), len(b)) for a, b in pairs(task))


def confidence(task: list[Run]) -> float | None:
    return decay(variation([run.confidence for run in task if run.confidence is not None]))


def resources(task: list[Run]) -> float | None:
    def measured(name: str) -> list[float]:
        amounts = [run.resources[name] for run in task if name in run.resources]
        return amounts if name == "num_errors" else [amount for amount in amounts if amount > 0]

    return decay(mean(variation(measured(name)) for name in RESOURCES))


def calibration(judged: list[tuple[float, bool]]) -> float | None:
    if not judged:
        return None
    edges = [0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5, 0.6000000000000001, 0.7000000000000001, 0.8, 0.9]
    bins: defaultdict[int, list[float]] = defaultdict(list)
    for c, success in judged:
        bins[max(number for number, edge in enumerate(edges) if edge <= c)].append(c - success)
    return 1 - sum(abs(sum(errors)) for errors in bins.values()) / len(judged)


def auroc(judged: list[tuple[float, bool]]) -> float | None:
    successes, failures = ([c for c, success in judged if success is outcome] for outcome in (True, False))
    return mean((a > b) + (a == b) / 2 for a, b in product(successes, failures))


def brier(judged: list[tuple[float, bool]]) -> float | None:
    error = mean((c - success) ** 2 for c, success in judged)
    return None if error is None else 1 - error


def risk_coverage(judged: list[tuple[float, bool]]) -> float | None:
    """Averaged over every order of the runs that goes from high to low confidence."""
    if not judged:
        return None
    failed = [not success for _, success in judged]
    if len(set(failed)) == 1:
        return 1.0
    orders = [order for order in permutations(judged) if all(a[0] >= b[0] for a, b in pairwise(order))]
    area = statistics.fmean(area_under([not success for _, success in order]) for order in orders)
    least = area_under(sorted(failed))
    score = 1 - (area - least) / (statistics.fmean(failed) - least + 1e-8)
    return min(1.0, max(0.0, score))


def area_under(failed: Sequence[bool]) -> float:
    """Under the error rate among the first runs, over 100 points of coverage."""
    coverages = [number / 99 for number in range(100)]
    risks = [statistics.fmean(failed[: max(1, int(coverage * len(failed) + 1e-9))]) for coverage in coverages]
    return sum((a + b) / 2 / 99 for a, b in pairwise(risks))
