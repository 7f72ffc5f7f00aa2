"""Prices of tokens: those of the settings, else those of genai-prices."""

import re
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple, Protocol

from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import ModelCall

MOST_MODELS: Final = 1000
"""Models whose prices are remembered, the last used ones. Names come from spans, so they need a bound."""
ONE_TIER: Final = 100_000
"""Input tokens up to which a model has one price. Some models charge more per token for longer requests."""
MILLION: Final = 1_000_000

_DATED: Final = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})\Z")
"""The suffix that providers append to a model's name in replies."""


class Price(Protocol):
    """US dollars for a million tokens."""

    @property
    def input(self) -> float: ...

    @property
    def output(self) -> float: ...


class _Rates(NamedTuple):
    input: float
    output: float


class TokenPrices:
    """Prices tokens. `own` are the settings' prices by model. A model is looked up there by its name, then without its
    date, then without its vendor (`vendor/name`). Owned by one thread."""

    def __init__(self, own: Mapping[str, Price]) -> None:
        # Loading it takes half a second, and only collectors and replays need it.
        from genai_prices import Usage, calc_price  # noqa: PLC0415

        self._own = own
        self._usage, self._calculate = Usage, calc_price
        self._known: LruMap[str, Price | None] = LruMap(MOST_MODELS)
        # The first look-up loads the table of prices (60 ms). Any known model will do.
        self._published("gpt-4o", 1, 1)

    def usd(self, model: str | None, input_tokens: int, output_tokens: int) -> float | None:
        """Return what these tokens cost, in US dollars; None where the model's price is not known."""
        if not model:
            return None
        own = self._own.get(model) or self._own.get(_DATED.sub("", model)) or self._own.get(_bare(model))
        if own is None and input_tokens > ONE_TIER:
            return self._published(model, input_tokens, output_tokens)
        price = own or self._rates(model)
        return None if price is None else (input_tokens * price.input + output_tokens * price.output) / MILLION

    def of_call(self, call: ModelCall) -> float | None:
        """Return what a model call cost, in US dollars; None where its price or its tokens are not known."""
        if call.usage is None:
            return None
        return self.usd(call.model, call.usage.input_tokens, call.usage.output_tokens)

    def of_calls(self, calls: Sequence[ModelCall]) -> float | None:
        """Return what the calls cost together; None where one could not be priced."""
        costs = [self.of_call(call) for call in calls]
        known = [cost for cost in costs if cost is not None]
        return fsum(known) if len(known) == len(costs) else None

    def _rates(self, model: str) -> Price | None:
        if model not in self._known:
            # The table has no plain rates to read, so they are those of 1,000 tokens of each kind.
            paid = [self._published(model, *tokens) for tokens in ((1000, 0), (0, 1000))]
            rates = None if None in paid else _Rates(*(each * 1000 for each in paid if each is not None))
            self._known.put(model, rates)
        return self._known.get(model)

    def _published(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        used = self._usage(input_tokens=input_tokens, output_tokens=output_tokens)
        for name in dict.fromkeys((model, _bare(model))):
            try:
                return float(self._calculate(used, model_ref=name).total_price)
            except LookupError:
                continue
        return None


def _bare(model: str) -> str:
    return model.rpartition("/")[2]
