"""The page of quality: a card for each evaluator, with its rates, its agreement with people, and the drift."""

from collections.abc import Sequence
from typing import NamedTuple

from agenteval_collector.api.documents import DriftDocument
from agenteval_collector.api.quality_documents import AgreementDocument, QualityDocument


class Card(NamedTuple):
    """An evaluator, with everything that is known of it."""

    name: str
    rates: Sequence[QualityDocument]
    agreements: Sequence[AgreementDocument]
    drifts: Sequence[DriftDocument]


def cards(
    rates: Sequence[QualityDocument], agreements: Sequence[AgreementDocument], drifts: Sequence[DriftDocument]
) -> list[Card]:
    """Return a card for each evaluator that has a rate, in their order; of agreements those with the judge."""
    return [
        Card(
            name,
            [each for each in rates if each["name"] == name],
            [each for each in agreements if each["name"] == name and each["method"] == "llm"],
            [each for each in drifts if each["name"] == name],
        )
        for name in dict.fromkeys(each["name"] for each in rates)
    ]
