"""The page of reliability over runs: every figure with its interval, and two versions side by side."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from agenteval_collector.model.runs import AgentVersion
from agenteval_collector.serve.api.figure_documents import ReliabilityDocument
from agenteval_collector.serve.api.wire import Parameters
from agenteval_collector.serve.web import formats, reliability_text
from agenteval_collector.serve.web.site import Site, chosen, page_links

PER_PAGE: Final = 5
"""Versions of agents on a page at most. A report that was not computed before takes a tenth of a second."""
PARAMETERS: Final = ("agent", "service", "version", "before", "after")


class FigureRow(NamedTuple):
    """A figure with its value and its interval. `is_part` is True if it is a part of another figure."""

    name: str
    words: str
    is_part: bool
    value: float | None
    interval: Sequence[float] | None
    reason: str | None


def reliability(site: Site, parameters: Parameters) -> str:
    """Return the page of the figures of agents' versions, or of two versions side by side if both are named."""
    filters, cursor = chosen(parameters, PARAMETERS), parameters.get("cursor") or None
    if "before" in filters and "after" in filters:
        return _comparison(site, filters)
    wanted = {name: filters.get(name) for name in ("agent", "service", "version")}
    page = site.queries.reliability(**wanted, limit=PER_PAGE, cursor=cursor)
    return site.render(
        "reliability.html",
        "/reliability",
        refresh=None,
        items=page.items,
        rows_of=_rows_of,
        whose=reliability_text.whose,
        remarks=reliability_text.remarks,
        notes=reliability_text.notes,
        earlier=_earlier_versions(page.items),
        asked=filters,
        **page_links("/reliability", filters, cursor, page.next_cursor),
    )


def _comparison(site: Site, filters: Parameters) -> str:
    whose = {name: filters.get(name) for name in ("agent", "service")}
    compared = site.queries.reliability_comparison(filters["before"], filters["after"], **whose)
    figures = reliability_text.shown_figures(compared)
    reasons = {name: reason for name in figures if (reason := compared["figures"][name]["reason"])}
    return site.render(
        "comparison.html",
        "/reliability",
        refresh=None,
        compared=compared,
        verdict=reliability_text.comparison_result(compared),
        rows=[(name, reliability_text.figure_words(name), compared["figures"][name]) for name in figures],
        notes=reliability_text.notes(reasons, {}),
        query=formats.query(filters),
        asked=filters,
    )


def _rows_of(item: ReliabilityDocument) -> Iterator[FigureRow]:
    """Yield the figures of a version: `pass^k`, then the published figures, with reliability as a whole first."""
    for k, chance in list(item["pass_hat_k"].items())[: reliability_text.SHOWN_K]:
        name = f"pass^{k}"
        yield FigureRow(name, reliability_text.figure_words(name), k != "1", chance, item["intervals"][name], None)
    for name in ("R", *(label for label in reliability_text.LABELS if label != "R")):
        words = reliability_text.figure_words(name)
        value, interval = item["metrics"][name], item["intervals"][name]
        yield FigureRow(name, words.strip(), words.startswith(" "), value, interval, item["reasons"].get(name))


def _earlier_versions(items: Sequence[ReliabilityDocument]) -> dict[AgentVersion, str]:
    """Return the version before each version of an agent, if both are on the page. Versions come newest first."""
    versions = [AgentVersion(item["agent"], item["service"], item["version"]) for item in items]
    names: dict[AgentVersion, str] = {}
    for agent in dict.fromkeys(version.key for version in versions):
        for newer, older in pairwise(version for version in versions if version.key == agent):
            if older.version is not None:
                names[newer] = older.version
    return names
