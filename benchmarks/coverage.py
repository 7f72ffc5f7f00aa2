"""Coverage of the intervals of pass rates, and their width beside that of the labels alone (Wilson).

Each number of labels has its worst and its mean coverage. They are taken over several pass rates, judges of four
qualities, and sessions whose traces agree or do not. Labels are drawn evenly, or half of them from the traces that the
judge fails. The sequences are looked at while labels come in, as the review queue draws them: a draw counts as covered
only if the rate was in the interval at every look. The seed is fixed.

    python -m benchmarks.coverage [--draws DRAWS] [--json]
"""

from itertools import product

import numpy as np
from agenteval_collector.figures.quality import rate_of
from agenteval_collector.model.pass_rates import JudgedScore

from benchmarks.harness import arguments, report
from otel_agenteval.metrics.pass_rate import MIN_CORRECTED, MIN_LABELS, JudgedTrace, pass_rate
from otel_agenteval.metrics.wilson import wilson

LABELS = (20, 49, 50, 100, 500)
RATES = (0.5, 0.7, 0.9, 0.95)
JUDGES = ((0.95, 0.95), (0.85, 0.75), (0.7, 0.6), (0.5, 0.5))
"""The judges' sensitivity and specificity."""
ALIKE = (0.0, 0.5)
MOST_LABELS = 400
"""Labels after which nobody looks any more."""
MOST_TRACES = 1200
"""More traces than any draw has."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, draws=400)
    results: dict[str, float | int | str] = {}
    for labels in LABELS:
        covered, widths, alone = [], [], []
        for rate, judge, alike, stratified in product(RATES, JUDGES, ALIKE, (False, True)):
            random = np.random.default_rng(13)
            found = [
                pass_rate(judged_traces(random, rate, judge, labels, alike=alike, stratified=stratified)).interval
                or (0.0, 1.0)
                for _ in range(given.draws)
            ]
            covered.append(sum(low <= rate <= high for low, high in found) / len(found))
            widths.append(float(np.mean([high - low for low, high in found])))
            alone.append(float(np.mean([wilson_width(labels, random.binomial(labels, rate)) for _ in found])))
        results[f"{labels} labels: coverage, mean"] = float(np.mean(covered))
        results[f"{labels} labels: coverage, worst case"] = min(covered)
        results[f"{labels} labels: width, of labels alone"] = float(np.mean(widths) / np.mean(alone))
    held = []
    for rate, judge, alike in product(RATES, JUDGES, ALIKE):
        random = np.random.default_rng(13)
        missed = [sequence_misses(random, rate, judge, alike=alike) for _ in range(given.draws)]
        held.append(1 - float(np.mean(missed)))
    results["sequence, 20 to 400 labels: coverage at every look, mean"] = float(np.mean(held))
    results["sequence, 20 to 400 labels: coverage at every look, worst case"] = min(held)
    report(f"Intervals over {given.draws} draws each", results, as_json=given.json)


def judged_traces(
    random: np.random.Generator,
    rate: float,
    judge: tuple[float, float],
    labels: int,
    *,
    alike: float = 0.0,
    stratified: bool = False,
    sessions: int = 200,
) -> list[JudgedTrace]:
    """Draw judged traces of sessions with one to six traces. `labels` of the traces are labelled.

    `alike` is how much the traces of a session agree, from 0 to 1. If `stratified` is True, half of the labels are
    drawn from traces that the judge fails.
    """  # fmt: skip
    session = np.repeat(np.arange(sessions), random.integers(1, 7, sessions))
    of_session = np.full(sessions, rate)
    if alike:
        of_session = random.beta(rate * (1 - alike) / alike, (1 - rate) * (1 - alike) / alike, sessions)
    good = random.random(len(session)) < of_session[session]
    passed = np.where(good, random.random(len(good)) < judge[0], random.random(len(good)) >= judge[1])
    chance = np.zeros(len(good))
    strata = [np.flatnonzero(~passed), np.flatnonzero(passed)] if stratified else [np.arange(len(good))]
    for at, stratum in enumerate(strata):
        count = min(len(stratum), labels // len(strata) if at == 0 else labels - int(np.count_nonzero(chance)))
        chance[random.choice(stratum, count, replace=False)] = count / len(stratum)
    return [
        JudgedTrace(str(s), bool(p), bool(g) if c else None, float(c) or 1.0)
        for s, p, g, c in zip(session, passed, good, chance, strict=True)
    ]


def sequence_misses(
    random: np.random.Generator, rate: float, judge: tuple[float, float], *, alike: float = 0.0
) -> bool:
    """Give labels to judged traces in the order of the review queue, and look after every few of them. Return whether
    the true rate was ever outside of the sequence."""
    traces = judged_traces(random, rate, judge, labels=MOST_TRACES, alike=alike)
    queues = {verdict: [at for at, trace in enumerate(traces) if trace.passed is verdict] for verdict in (True, False)}
    order: list[int] = []
    while any(queues.values()) and len(order) < MOST_LABELS:
        verdict = bool(random.random() < 0.5)
        queue = queues[verdict] or queues[not verdict]
        order.append(queue.pop(int(random.integers(len(queue)))))
    for labels in (*range(MIN_LABELS, MIN_CORRECTED + 10, 5), *range(MIN_CORRECTED + 10, MOST_LABELS + 1, 20)):
        labelled = set(order[:labels])
        shown = [
            JudgedScore(str(at), trace.session_id, bool(trace.passed), trace.label if at in labelled else None)
            for at, trace in enumerate(traces)
        ]
        sequence = rate_of(shown).sequence
        if sequence is not None and not sequence[0] <= rate <= sequence[1]:
            return True
    return False


def wilson_width(n: int, successes: int) -> float:
    """Return the width of the interval that the labels have without a judge."""
    low, high = wilson(successes / n, n)
    return high - low


if __name__ == "__main__":
    main()
