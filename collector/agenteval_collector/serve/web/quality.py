"""The page of quality: a card for each evaluator, with its pass rates, its agreement with people, and its drift."""

from collections.abc import Sequence
from typing import NamedTuple

from agenteval_collector.serve.api.figure_documents import AgreementDocument, DriftDocument, QualityDocument
from agenteval_collector.serve.api.wire import Parameters
from agenteval_collector.serve.web.site import SLOW_REFRESH_SECONDS, Site, page_links


class Card(NamedTuple):
    """An evaluator, with its pass rates, its agreements with labels, and its drifts."""

    name: str
    rates: Sequence[QualityDocument]
    agreements: Sequence[AgreementDocument]
    drifts: Sequence[DriftDocument]


def quality(site: Site, parameters: Parameters) -> str:
    """Return the page of pass rates, by evaluator."""
    cursor = parameters.get("cursor") or None
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
            [rate for rate in rates if rate["name"] == name],
            [agreement for agreement in agreements if agreement["name"] == name and agreement["method"] == "llm"],
            [drift for drift in drifts if drift["name"] == name],
        )
        for name in dict.fromkeys(rate["name"] for rate in rates)
    ]
