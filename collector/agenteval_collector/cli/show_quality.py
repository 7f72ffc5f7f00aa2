"""Print the rates at which agents' versions pass the judge's evaluators."""

from rich.text import Text

from agenteval_collector.api.documents import Interval, Listing
from agenteval_collector.api.figure_documents import QualityDocument
from agenteval_collector.cli.terminal import console, content, table
from agenteval_collector.web.formats import believed, number, rate_notes

_WIDTH = 20
"""Characters for the rates from 0 to 1."""


def show_quality(page: Listing[QualityDocument]) -> None:
    """Print a table with a bar for each interval; below it, row by row, what it does not say."""
    out = console()
    if not page["items"]:
        out.print("No rates: no judge has scored a trace that was drawn at random, or none is asked for.")
        return
    figures = ("rate", "95 %", "judged", "labels", "sensitivity", "specificity")
    rates = table("evaluator", "agent", "version", *figures[:2], "", "by", *figures[2:], right=figures)
    for item in page["items"]:
        rates.add_row(
            content(item["name"]),
            content(item["agent"] or "unnamed", "" if item["agent"] else "dim"),
            content(item["version"] or "–"),
            _number(item["estimate"]),
            "–" if item["interval"] is None else "–".join(map(number, item["interval"])),
            Text(interval_bar(item), "cyan"),
            believed(item["estimator"]),
            str(item["judged"]),
            str(item["labelled"]),
            _with_interval(item["sensitivity"], item["sensitivity_interval"]),
            _with_interval(item["specificity"], item["specificity_interval"]),
        )
    out.print(rates)
    for item in page["items"]:
        if notes := rate_notes(item):
            row = f"{item['name']}, {item['agent'] or 'unnamed'} {item['version'] or ''}".rstrip()
            out.print(content(f"{row}: {'; '.join(notes)}.", "dim"))


def interval_bar(item: QualityDocument) -> str:
    """Draw the estimate as a dot on its interval, in the range from 0 to 1."""
    if item["estimate"] is None:
        return ""
    low, high = map(_place, item["interval"] or (item["estimate"],) * 2)
    line = "".join("━" if low <= at <= high else "·" for at in range(_WIDTH))
    at = _place(item["estimate"])
    return f"{line[:at]}●{line[at + 1 :]}"


def _place(rate: float) -> int:
    return min(_WIDTH - 1, int(rate * _WIDTH))


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return "–"
    low, high = interval
    return f"{number(value)} [{number(low)}, {number(high)}]"


def _number(value: float | None) -> str:
    return "–" if value is None else number(value)
