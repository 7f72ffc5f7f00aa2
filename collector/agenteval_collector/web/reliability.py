"""The page of reliability over runs: every figure with its interval, and two versions side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from agenteval_collector.api.documents import ReliabilityDocument
from agenteval_collector.api.queries import Queries
from agenteval_collector.web import formats
from agenteval_collector.web.figures import LABELS, SHOWN_K, figure_words, notes, remarks, shown_figures, verdict, whose

PER_PAGE: Final = 5
"""Versions of agents: a report that is not known yet takes a tenth of a second."""
PARAMETERS: Final = ("agent", "version", "before", "after")


class FigureRow(NamedTuple):
    """A figure: what it is called, whether it is a part of another one, its value and its interval."""

    name: str
    words: str
    is_part: bool
    value: float | None
    interval: Sequence[float] | None
    reason: str | None


class ReliabilityPages:
    """Renders the page of reliability, as HTML. Raises the error that the error page then shows."""

    def __init__(self, queries: Queries, render: Callable[..., str]) -> None:
        self._queries = queries
        self._render = render

    def reliability(self, asked: Mapping[str, str], *, cursor: str | None) -> str:
        """Return the figures of agents' versions, or two versions side by side where `asked` names both."""
        if asked.get("before") and asked.get("after"):
            return self._comparison(asked)
        named = {name: asked.get(name) for name in ("agent", "version")}
        page = self._queries.reliability(**named, limit=PER_PAGE, cursor=cursor)
        return self._render(
            "reliability.html",
            refresh=None,
            items=page.items,
            rows_of=rows_of,
            whose=whose,
            remarks=remarks,
            notes=notes,
            earlier=earlier_versions(page.items),
            asked=asked,
            first="/reliability" + formats.query(asked) if cursor else None,
            next="/reliability" + formats.query({**asked, "cursor": page.next_cursor}) if page.next_cursor else None,
        )

    def _comparison(self, asked: Mapping[str, str]) -> str:
        agent = asked.get("agent")
        compared = self._queries.reliability_comparison(asked["before"], asked["after"], agent=agent)
        shown = shown_figures(compared)
        reasons = {name: reason for name in shown if (reason := compared["figures"][name]["reason"])}
        return self._render(
            "comparison.html",
            refresh=None,
            compared=compared,
            verdict=verdict(compared),
            rows=[(name, figure_words(name), compared["figures"][name]) for name in shown],
            notes=notes(reasons, {}),
            query=formats.query(asked),
            asked=asked,
        )


def rows_of(item: ReliabilityDocument) -> Iterator[FigureRow]:
    """Yield the figures of a version: the chance of runs to succeed, then the published ones, the whole first."""
    for k, chance in list(item["pass_hat_k"].items())[:SHOWN_K]:
        name = f"pass^{k}"
        yield FigureRow(name, figure_words(name), k != "1", chance, item["intervals"][name], None)
    for name in ("R", *(each for each in LABELS if each != "R")):
        words = figure_words(name)
        value, interval = item["metrics"][name], item["intervals"][name]
        yield FigureRow(name, words.strip(), words.startswith(" "), value, interval, item["reasons"].get(name))


def earlier_versions(items: Sequence[ReliabilityDocument]) -> dict[tuple[str | None, str | None], str]:
    """Return the version before each version of an agent, as far as both are shown."""
    found: dict[tuple[str | None, str | None], str] = {}
    for agent in dict.fromkeys(item["agent"] for item in items):
        for newer, older in pairwise(item["version"] for item in items if item["agent"] == agent):
            if older is not None:
                found[agent, newer] = older
    return found
