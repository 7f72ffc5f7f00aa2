"""Read who runs a model, and what the emitter says that a call cost."""

from collections.abc import Mapping
from typing import Final

from otel_agenteval.conventions.decoding import first_text
from otel_agenteval.model import Json

MOST_USD: Final = 10_000.0
"""US dollars that no call costs."""
# GenAI conventions (new and old), OpenInference, Vercel.
_PROVIDERS: Final = (
    *("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "embedding.provider"),
    "ai.model.provider",
)
# OpenLIT, Traceloop, OpenInference, Pydantic AI and Logfire, Claude Code, OpenRouter.
_COSTS: Final = (
    *("gen_ai.usage.cost", "gen_ai.usage.total_cost", "llm.cost.total", "operation.cost", "cost_usd"),
    *("gen_ai.usage.cost_usd", "gen_ai.cost.total"),
)


def provider_of(attributes: Mapping[str, Json]) -> str | None:
    """Return who runs the model of a call."""
    return first_text(attributes, *_PROVIDERS)


def billed_usd(attributes: Mapping[str, Json]) -> float | None:
    """Return what the emitter says that a call cost, in US dollars. None if it does not say, or says nonsense."""
    for key in _COSTS:
        cost = attributes.get(key)
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < MOST_USD:
            return float(cost)
    return None
