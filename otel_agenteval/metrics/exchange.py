"""Test whether two versions differ, by exchanging their runs (a permutation test).

If two versions are the same, exchanging the runs of a task between them changes nothing. So the observed difference is
compared with the differences after all such exchanges, or a sample of them. The p-value is the share of differences
that are as large (Fisher 1935, "The Design of Experiments", chapter 21). The observed difference is one of them
(Phipson and Smyth 2010, "Permutation p-values should never be zero"). The test is exact for every figure, however few
tasks there are.

One figure decides. The others are looked at only if the deciding figure differs. Then they are corrected for their
number (Holm 1979, "A simple sequentially rejective multiple test procedure"). So two equal versions differ in any
figure at most as often as in the deciding one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from otel_agenteval.metrics.consistency import Variant
from otel_agenteval.metrics.figures import Figures
from otel_agenteval.metrics.resampling import SAMPLES, SEED
from otel_agenteval.metrics.runs import Bools, Floats, Run, RunTable

LEVEL: Final = 0.05
"""The chance that two equal versions are said to differ."""
_TOLERANCE: Final = 1e-9
"""The distance up to which two differences are equal, because the order of a sum changes the last digits."""
_ROWS: Final = 128
"""The number of exchanges that are computed at once. It bounds memory."""


def p_values(
    before: Iterable[Run],
    after: Iterable[Run],
    names: Sequence[str],
    variant: Variant,
    severity_weights: Mapping[str, float],
) -> dict[str, float]:
    """Return the p-value of the difference of each figure. Both versions must have runs of the same tasks.

    Figures that are undefined for one version are left out.
    """
    runs = [replace(run, task_id=f"{side}{run.task_id}") for side, of in enumerate((before, after)) for run in of]
    # The table sorts tasks by id: first all tasks of the version before ("0..."), then those of the one after ("1...").
    figures = Figures(RunTable.of(runs, severity_weights), variant)
    tasks = len({run.task_id for run in runs}) // 2
    blocks = [_differences(figures, names, exchanged) for exchanged in _exchanges(tasks)] if tasks else []
    values = {}
    for name in names if blocks else ():
        differences = np.abs(np.concatenate([block[name] for block in blocks]))
        if not np.isnan(differences[0]):
            # "Not smaller" counts NaN as large: an exchange that leaves the figure undefined speaks for no difference.
            values[name] = float(np.mean(~(differences < differences[0] - _TOLERANCE)))
    return values


def corrected(p_values: Mapping[str, float], primary: str) -> dict[str, float]:
    """Return the corrected p-values: the `primary` one unchanged, the others by Holm and never below the primary one.

    The versions differ in a figure if its corrected p-value is below `LEVEL`.
    """
    first = p_values.get(primary, 1.0)
    others = sorted((value, name) for name, value in p_values.items() if name != primary)
    raised = {primary: first} if primary in p_values else {}
    largest = first
    for at, (value, name) in enumerate(others):
        largest = max(largest, min(1.0, (len(others) - at) * value))
        raised[name] = largest
    return raised


def _exchanges(tasks: int) -> Iterator[Bools]:
    """Yield the tasks that are exchanged, in blocks of shape (some, tasks). The first row exchanges none.

    If there are at most `SAMPLES` ways to exchange tasks, all are yielded, else a seeded sample.
    """
    if 2**tasks <= SAMPLES:
        every = (np.arange(2**tasks)[:, None] >> np.arange(tasks)) & 1
    else:
        every = np.random.default_rng(SEED).integers(0, 2, (SAMPLES, tasks))
        every[0] = 0
    for start in range(0, len(every), _ROWS):
        yield every[start : start + _ROWS].astype(np.bool_)


def _differences(figures: Figures, names: Sequence[str], exchanged: Bools) -> dict[str, Floats]:
    # `figures` has the tasks of the version before, then those of the version after. An exchanged task is weighted in
    # the other half, and both sides together weigh every task once.
    of_before = np.concatenate([~exchanged, exchanged], axis=1).astype(np.float64)
    before, after = figures.at(of_before), figures.at(1.0 - of_before)
    return {name: after[name] - before[name] for name in names}
