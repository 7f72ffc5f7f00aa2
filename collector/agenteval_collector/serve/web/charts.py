"""Charts of figures over time: the data that `charts.js` draws, and small charts that need no script."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, Literal, NamedTuple

from agenteval_collector.serve.api.figure_documents import AgentItem, PointDocument, RateDocument
from agenteval_collector.serve.web.formats import words

Unit = Literal["share", "usd", "seconds", "count"]
WIDTH: Final = 100.0
HEIGHT: Final = 24.0
"""The size of a small chart, in units of its own."""


class ChartLine(NamedTuple):
    """A line of a chart. It has a value for each point, or None. `low` and `high` are the bounds of its interval."""

    label: str
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


class Chart(NamedTuple):
    """A chart of an agent over time. If `bars` is True, it has one line, which is drawn as bars."""

    title: str
    about: str
    unit: Unit
    at: Sequence[str]
    lines: Sequence[ChartLine]
    marks: Sequence[tuple[str, str]] = ()
    """Times at which something began, each with its name."""
    bars: bool = False

    @property
    def data(self) -> str:
        """The chart as JSON, with times in seconds since the Unix epoch."""
        lines = [line._asdict() for line in self.lines]
        marks = [{"at": _seconds(at), "label": label} for at, label in self.marks]
        at = [_seconds(time) for time in self.at]
        return json.dumps({"at": at, "unit": self.unit, "bars": self.bars, "lines": lines, "marks": marks})

    @property
    def known(self) -> list[int]:
        """The numbers of the points, from 0, at which any line has a value."""
        return [index for index, _ in enumerate(self.at) if any(line.values[index] is not None for line in self.lines)]


class Spark(NamedTuple):
    """A small chart of shares from 0 to 1: SVG paths of its line and its interval, in a box of `WIDTH` by `HEIGHT`."""

    line: str
    band: str


def charts_of(agent: AgentItem, main: str | None) -> list[Chart]:
    """Return the charts of an agent that have a value to show. The pass rate of the evaluator `main` comes first."""
    points = agent["points"]
    at = [point["at"] for point in points]
    # A version that began before the first point has no mark: the chart does not show its beginning.
    marks = [
        (version["first_at"], version["version"]) for version in agent["versions"] if version["version"] is not None
    ]
    marks = [(began, version) for began, version in reversed(marks) if began >= at[0]]
    rates = [
        Chart(f"Pass rate: {words(name)}", "judged traces that pass, with a 95 % interval", "share", at,
              [_rate_line("pass rate", [point["pass_rates"].get(name) for point in points])], marks)
        for name in evaluators(agent, main)
    ]  # fmt: skip
    errors = Chart(
        "Traces with an error", "traces with a finding of severity error, with a 95 % interval", "share", at,
        [_rate_line("with an error", [point["errors"] for point in points])], marks,
    )  # fmt: skip
    others = [
        Chart("Sessions", "sessions with a trace that began then", "count", at,
              [ChartLine("sessions", [point["sessions"] for point in points])], marks, bars=True),
        Chart("Cost per session", "model calls whose price is known", "usd", at,
              [ChartLine("cost", [point["usd_per_session"] for point in points])], marks, bars=True),
        Chart("Time in the turns of a trace", "half of the traces, and 95 % of them, took no longer", "seconds", at,
              [ChartLine("p50", [point["seconds"]["p50"] for point in points]),
               ChartLine("p95", [point["seconds"]["p95"] for point in points])], marks),
    ]  # fmt: skip
    return [rate for rate in (*rates[:1], errors, *others, *rates[1:]) if rate.known]


def evaluators(agent: AgentItem, main: str | None) -> list[str]:
    """Return the evaluators of an agent, `main` first."""
    return sorted(agent["pass_rates"], key=lambda name: (name != main, name))


def main_evaluator(agent: AgentItem) -> str | None:
    """Return the main evaluator of an agent: `task_completion` if it has scores, else the one with most traces."""
    rates = agent["pass_rates"]
    if not rates:
        return None
    return max(rates, key=lambda name: (name == "task_completion", rates[name]["traces"], name))


def spark(points: Sequence[PointDocument], of: Callable[[PointDocument], RateDocument | None]) -> Spark:
    """Return a small chart of a rate, with its interval if it has one."""
    rates = [of(point) for point in points]
    step = WIDTH / max(1, len(rates) - 1)
    placed = [(index * step, rate) for index, rate in enumerate(rates)]
    known = [(x, rate["rate"], rate["interval"]) for x, rate in placed if rate and rate["rate"] is not None]
    line = "".join(f"{'L' if index else 'M'}{x:.1f} {_y(rate):.1f}" for index, (x, rate, _) in enumerate(known))
    # A path with a single point draws nothing, so it gets a very short line.
    return Spark(line=line + "h.01" if len(known) == 1 else line, band="".join(_bands(placed)))


def _bands(placed: Sequence[tuple[float, RateDocument | None]]) -> Iterator[str]:
    """Yield a closed path for each unbroken series of points with an interval."""
    bounds = [(x, rate["interval"] if rate else None) for x, rate in placed]
    for is_known, run in groupby(bounds, key=lambda bound: bound[1] is not None):
        if is_known:
            intervals = [(x, interval) for x, interval in run if interval is not None]
            up = [f"{x:.1f} {_y(interval[1]):.1f}" for x, interval in intervals]
            down = [f"{x:.1f} {_y(interval[0]):.1f}" for x, interval in reversed(intervals)]
            yield f"M{'L'.join([*up, *down])}Z"


def _rate_line(label: str, rates: Sequence[RateDocument | None]) -> ChartLine:
    intervals = [None if rate is None else rate["interval"] for rate in rates]
    return ChartLine(
        label,
        [None if rate is None else rate["rate"] for rate in rates],
        [None if interval is None else interval[0] for interval in intervals],
        [None if interval is None else interval[1] for interval in intervals],
    )


def _y(share: float) -> float:
    # A unit stays free above and below; y grows downwards in SVG.
    return 1 + (HEIGHT - 2) * (1 - share)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
