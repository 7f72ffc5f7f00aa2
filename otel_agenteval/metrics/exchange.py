"""Test whether two versions differ, by exchanging them.

If two versions are the same, nothing would change had the runs of any task been those of the other version. So the
difference that was found is compared with those of all such exchanges, or of a sample of them: its p-value is the share
that is as large (permutation test; Fisher 1935, "The Design of Experiments", chapter 21; with the observed one among
them, Phipson and Smyth 2010, "Permutation p-values should never be zero"). It is exact for every figure, however few
tasks there are.

One figure decides. The others are looked at only where it differs, and then corrected for their number (Holm 1979, "A
simple sequentially rejective multiple test procedure"). So two equal versions are told apart in any figure at most as
often as in that one.
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
"""Chance that two equal versions are told apart."""
_TOLERANCE: Final = 1e-9
"""Differences that are less apart are equal: the order of a sum changes the last digits."""
_ROWS: Final = 128
"""Exchanges at once; it bounds memory."""


def p_values(
    before: Iterable[Run],
    after: Iterable[Run],
    names: Sequence[str],
    variant: Variant,
    severity_weights: Mapping[str, float],
) -> dict[str, float]:
    """Return the p-value of the difference of each figure; both versions must have runs of the same tasks.

    Figures that are undefined for one of them are left out.
    """
    runs = [replace(run, task_id=f"{side}{run.task_id}") for side, of in enumerate((before, after)) for run in of]
    # Tasks come in order: all of the version before, then all of the one after.
    figures = Figures(RunTable.of(runs, severity_weights), variant)
    tasks = len({run.task_id for run in runs}) // 2
    blocks = [_differences(figures, names, exchanged) for exchanged in _exchanges(tasks)] if tasks else []
    found = {}
    for name in names if blocks else ():
        differences = np.abs(np.concatenate([block[name] for block in blocks]))
        if not np.isnan(differences[0]):
            # An exchange that leaves the figure undefined speaks for no difference.
            found[name] = float(np.mean(~(differences < differences[0] - _TOLERANCE)))
    return found


def decided(found: Mapping[str, float], primary: str) -> dict[str, float]:
    """Return the p-values corrected: that of the `primary` figure as it is, the others by Holm, and at least as large.

    A figure differs where it is below `LEVEL`.
    """
    first = found.get(primary, 1.0)
    others = sorted((value, name) for name, value in found.items() if name != primary)
    corrected = {primary: first} if primary in found else {}
    largest = first
    for at, (value, name) in enumerate(others):
        largest = max(largest, min(1.0, (len(others) - at) * value))
        corrected[name] = largest
    return corrected


def _exchanges(tasks: int) -> Iterator[Bools]:
    """Yield which tasks are exchanged, in blocks of shape (some, tasks), none of them first: all ways where they are no
    more than `SAMPLES`."""
    if 2**tasks <= SAMPLES:
        every = (np.arange(2**tasks)[:, None] >> np.arange(tasks)) & 1
    else:
        every = np.random.default_rng(SEED).integers(0, 2, (SAMPLES, tasks))
        every[0] = 0
    for start in range(0, len(every), _ROWS):
        yield every[start : start + _ROWS].astype(np.bool_)


def _differences(figures: Figures, names: Sequence[str], exchanged: Bools) -> dict[str, Floats]:
    of_before = np.concatenate([~exchanged, exchanged], axis=1).astype(np.float64)
    before, after = figures.at(of_before), figures.at(1.0 - of_before)
    return {name: after[name] - before[name] for name in names}
