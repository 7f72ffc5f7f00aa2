"""Bars that a change must not pass: for the growth of the collector's CPU, its disk, and the instructions per span.

Every figure is a ratio within one run, so that a slow machine and its neighbours cancel out. Growth is measured by
time. Its bars leave room for noise that does not cancel out. A measurement above its bar is repeated once, and fails
if it is above the bar again. The cost of a span, in the collector and in the client, is counted in instructions. Its
bars leave little room.

    python -m benchmarks.bars [--json]
"""

import sys
from collections.abc import Callable
from typing import Final

from benchmarks import curves, disk, instructions
from benchmarks.harness import arguments, report

CONVERSATIONS: Final = 6
CONVERSATIONS_KEPT: Final = 100


def largest_of(name: str) -> float:
    """Return the largest point of a curve as a ratio to its first point."""
    first, *others = curves.measured(name).values()
    return max(others) / first


BARS: Final[dict[str, tuple[Callable[[], float], float]]] = {
    "traces of a session: 400 of 20": (lambda: largest_of("session length"), 1.4),
    "a session that comes back: 5,000 traces of 10": (lambda: largest_of("coming back"), 2.0),
    "requests of a trace: 128 of 1": (lambda: largest_of("pieces"), 2.5),
    "traces out of order, of those in order": (lambda: largest_of("disorder"), 2.2),
    "bytes on disk, of those on the wire": (lambda: disk.measured(CONVERSATIONS_KEPT)["both, of the wire"], 0.75),
}
"""Each measurement of time or of disk, with the ratio that it must not pass."""

COUNTED: Final = {
    "evaluating, of a bare parse": 171.5,
    "assembling, of a bare parse": 6.6,
    "our processor, of the stock exporter": 0.49,
}
"""The ratios of instructions that must not be passed."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__)
    figures: dict[str, str] = {}
    passed = []
    counted = instructions.measured(CONVERSATIONS)
    for name, bar in COUNTED.items():
        figures[name] = f"{counted[name]:.3g}, at most {bar:g}"
        if counted[name] > bar:
            passed.append(name)
    for name, (measure, bar) in BARS.items():
        found = measure()
        if found > bar:
            found = min(found, measure())
        figures[name] = f"{found:.3g}, at most {bar:g}"
        if found > bar:
            passed.append(name)
    report("CPU and disk, as ratios", figures, as_json=given.json)
    if passed:
        sys.exit(f"more than its bar: {'; '.join(passed)}")


if __name__ == "__main__":
    main()
