"""The prices of models, as the settings have them."""

from collections.abc import Collection, Mapping

from agenteval_collector.config import PriceConfig


class Prices:
    """`judge.prices`. A model `vendor/name` that has no price of its own has that of `name`."""

    def __init__(self, prices: Mapping[str, PriceConfig]) -> None:
        self._prices = prices

    def usd(self, model: str, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """Work out the cost in US dollars; None where the model has no price, or the tokens are unknown."""
        price = self._prices.get(model) or self._prices.get(model.partition("/")[2])
        if price is None or input_tokens is None or output_tokens is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / 1_000_000

    def unknown(self, models: Collection[str]) -> list[str]:
        """List the models among these that have no price."""
        return sorted(model for model in set(models) if self.usd(model, 0, 0) is None)
