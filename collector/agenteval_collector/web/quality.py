"""The page of quality: a card for each evaluator, with its pass rates, its agreement with people, and its drift."""

from collections.abc import Sequence
from typing import NamedTuple

from agenteval_collector.api.figure_documents import AgreementDocument, DriftDocument, QualityDocument
from agenteval_collector.api.wire import Parameters
from agenteval_collector.web.site import SLOW_REFRESH_SECONDS, Site, page_links


class Card(NamedTuple):
    """An evaluator, with its pass rates, its agreements with labels, and its drifts."""

    name: str
    rates: Sequence[QualityDocument]
    agreements: Sequence[AgreementDocument]
    drifts: Sequence[DriftDocument]


def quality(site: Site, given: Parameters) -> str:
    """Return the page of pass rates, by evaluator."""
    cursor = given.get("cursor") or None
    page = site.queries.quality(cursor=cursor)
    return site.render(
        "quality.html",
        "/quality",
        refresh=None if cursor else SLOW_REFRESH_SECONDS,
        cards=_cards(page.items, site.queries.agreement(), site.queries.drifts()),
        **page_links("/quality", {}, cursor, page.next_cursor),
    )


def _cards(
    rates: Sequence[QualityDocument], agreements: Sequence[AgreementDocument], drifts: Sequence[DriftDocument]
) -> list[Card]:
    """Return a card for each evaluator with a rate, in the order of the rates. Leave out agreements without a judge."""
    return [
        Card(
            name,
            [each for each in rates if each["name"] == name],
            [each for each in agreements if each["name"] == name and each["method"] == "llm"],
            [each for each in drifts if each["name"] == name],
        )
        for name in dict.fromkeys(each["name"] for each in rates)
    ]
