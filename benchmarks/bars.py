"""Bars that a change must not pass: how the collector's CPU grows, and what it takes of a bare parse.

Everything is a ratio within one run, so that a slow machine and its neighbours cancel out; the bars leave room for
what does not. What passes its bar is measured once more, and fails where it passes it again.

    python -m benchmarks.bars [--json]
"""

import sys
from collections.abc import Callable
from typing import Final

from benchmarks import collector_cpu, curves
from benchmarks.harness import arguments, report

CONVERSATIONS: Final = 30
ROUNDS: Final = 3


def largest_of(name: str) -> float:
    """Return the largest point of a curve, of its first one."""
    first, *others = curves.measured(name).values()
    return max(others) / first


def of_bare_parse() -> float:
    """Return the CPU of the whole collector, of a server that parses the same requests."""
    return float(collector_cpu.measured(CONVERSATIONS, ROUNDS)["whole collector, ratio"])


BARS: Final[dict[str, tuple[Callable[[], float], float]]] = {
    "traces of a session: 400 of 20": (lambda: largest_of("session length"), 1.4),
    "a session that comes back: 5,000 traces of 10": (lambda: largest_of("coming back"), 2.0),
    "requests of a trace: 128 of 1": (lambda: largest_of("pieces"), 2.5),
    "traces out of order, of those in order": (lambda: largest_of("disorder"), 2.2),
    "the whole collector, of a bare parse": (of_bare_parse, 140.0),
}
"""Lists each measurement, with the ratio that it must not pass."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__)
    figures: dict[str, str] = {}
    passed = []
    for name, (measure, bar) in BARS.items():
        found = measure()
        if found > bar:
            found = min(found, measure())
        figures[name] = f"{found:.3g}, at most {bar:g}"
        if found > bar:
            passed.append(name)
    report("CPU, as ratios", figures, as_json=given.json)
    if passed:
        sys.exit(f"more than its bar: {'; '.join(passed)}")


if __name__ == "__main__":
    main()
