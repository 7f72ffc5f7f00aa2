"""Prices of tokens: those of the settings, else those of genai-prices, part by part."""

import re
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple, Protocol

from agenteval_collector.model.usage import Cost
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import ModelCall, Usage

MOST_MODELS: Final = 1000
"""Models whose prices are remembered, the last used ones. Names come from spans, so they need a bound."""
MOST_CALLS: Final = 64
"""Model calls whose costs are remembered: those of a few traces."""
ONE_TIER: Final = 100_000
"""Input tokens up to which a model has one price. Some models charge more per token for longer requests."""
MILLION: Final = 1_000_000

_DATED: Final = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})\Z")
"""The suffix that providers append to a model's name in replies."""
_PROVIDERS: Final[Mapping[str, str]] = {
    "aws.bedrock": "aws", "aws_bedrock": "aws", "bedrock": "aws", "amazon-bedrock": "aws", "amazon_bedrock": "aws",
    "aws": "aws", "azure.ai.openai": "azure", "azure.ai.inference": "azure", "az.ai.openai": "azure", "azure": "azure",
    "az.ai.inference": "azure", "azure_openai": "azure", "openai": "openai", "anthropic": "anthropic", "groq": "groq",
    "gcp.gemini": "google", "gcp.gen_ai": "google", "gcp.vertex_ai": "google", "vertex_ai": "google",
    "gemini": "google", "google": "google", "vertexai": "google", "google-vertex": "google",
    "google.generative-ai": "google",
    "mistral_ai": "mistral", "mistral": "mistral", "mistralai": "mistral", "cohere": "cohere", "deepseek": "deepseek",
    "perplexity": "perplexity", "x_ai": "x-ai", "xai": "x-ai", "together_ai": "together", "together": "together",
    "fireworks_ai": "fireworks", "fireworks": "fireworks", "openrouter": "openrouter", "cerebras": "cerebras",
}  # fmt: skip
"""The name of a provider in the table of prices, by its name on spans: of the GenAI conventions, of OpenInference, of
Vercel, of LiteLLM."""
_MAKERS: Final[Mapping[str, str]] = {"text-embedding-": "openai", "amazon.": "aws"}
"""The provider in the table by the beginning of a model's name, where the table does not find it by the name alone."""
_BILLERS: Final = frozenset(("openrouter", "gateway", "vercel", "vercel_ai_gateway", "claude_code"))
"""Providers whose own figure is what they charge."""


_NONE: Final[Mapping[str, int]] = {}


class Price(Protocol):
    """US dollars for a million tokens."""

    @property
    def input(self) -> float: ...

    @property
    def output(self) -> float: ...


class _Rates(NamedTuple):
    """US dollars for a million tokens of each part."""

    input: float
    cache_read: float
    cache_write: float
    output: float


class TokenPrices:
    """Prices tokens. `own` are the settings' prices by model. A model is looked up there by its name, then without its
    date, then without its vendor (`vendor/name`). Owned by one thread."""

    def __init__(self, own: Mapping[str, Price]) -> None:
        # Loading it takes half a second, and only collectors and replays need it.
        from genai_prices import Usage as Counts  # noqa: PLC0415
        from genai_prices import calc_price  # noqa: PLC0415

        self._own = own
        self._usage, self._calculate = Counts, calc_price
        self._known: LruMap[tuple[str, str | None], _Rates | None] = LruMap(MOST_MODELS)
        self._costs: dict[int, tuple[ModelCall, Cost | None]] = {}
        # The first look-up loads the table of prices (60 ms). Any known model will do.
        self._published("gpt-4o", None, 1, 0, 0, 1)

    def usd(
        self,
        model: str | None,
        input_tokens: int,
        output_tokens: int,
        *,
        cache_read: int = 0,
        cache_write: int = 0,
        provider: str | None = None,
        other: Mapping[str, int] = _NONE,
    ) -> float | None:
        """Return what these tokens cost, in US dollars; None if the model's price is not known.

        `input_tokens` has those that were read from the provider's cache and written to it in it, and those of `other`
        modalities. By a price of the settings all these cost the same.
        """
        if not model:
            return None
        own = self._own.get(model) or self._own.get(_DATED.sub("", model)) or self._own.get(_bare(model))
        if own is not None:
            return (input_tokens * own.input + output_tokens * own.output) / MILLION
        if input_tokens > ONE_TIER or other:
            return self._published(model, provider, input_tokens, cache_read, cache_write, output_tokens, other)
        rates = self._rates(model, provider)
        if rates is None:
            return None
        fresh = max(0, input_tokens - cache_read - cache_write)
        priced = zip((fresh, cache_read, cache_write, output_tokens), rates, strict=True)
        return fsum(tokens * rate for tokens, rate in priced) / MILLION

    def of_call(self, call: ModelCall) -> float | None:
        """Return what a model call cost, in US dollars; None if its price or its tokens are not known."""
        cost = self.cost_of(call)
        return None if cost is None else cost.usd

    def cost_of(self, call: ModelCall) -> Cost | None:
        """Return what a model call cost: the bill of a provider that writes one, else by the price list, else what the
        emitter says. None if neither its price nor its tokens are known."""
        # Several facts of a trace ask for the costs of its calls. While a call is held here, no other has its id.
        held = self._costs.get(id(call))
        if held is not None:
            return held[1]
        cost = self._cost_of(call)
        if len(self._costs) >= MOST_CALLS:
            self._costs.clear()
        self._costs[id(call)] = call, cost
        return cost

    def _cost_of(self, call: ModelCall) -> Cost | None:
        if call.billed_usd is not None and (call.provider or "").lower() in _BILLERS:
            return Cost(call.billed_usd, "billed")
        usage = call.usage
        if usage is not None and (usage.input_tokens is not None or usage.output_tokens is not None):
            usd = self._usd_of(call, usage, usage.other)
            if usd is not None:
                unknown = usage.is_partial or None in (usage.input_tokens, usage.output_tokens)
                # Audio costs many times as much as text. If the sum is that of text, its price is not known.
                unknown |= any("audio" in kind for kind in usage.other) and usd == self._usd_of(call, usage, _NONE)
                return Cost(usd, "priced", unknown)
        return None if call.billed_usd is None else Cost(call.billed_usd, "billed")

    def _usd_of(self, call: ModelCall, usage: Usage, other: Mapping[str, int]) -> float | None:
        return self.usd(
            call.model,
            usage.input_tokens or 0,
            usage.output_tokens or 0,
            cache_read=usage.cache_read_tokens or 0,
            cache_write=usage.cache_write_tokens or 0,
            provider=call.provider,
            other=other,
        )

    def of_embedding(self, call: ModelCall) -> Cost | None:
        """Return what a call of an embedding model cost: it has no output."""
        tokens = call.usage.input_tokens if call.usage else None
        usd = None if tokens is None else self.usd(call.model, tokens, 0, provider=call.provider)
        if usd is not None:
            return Cost(usd, "priced")
        return None if call.billed_usd is None else Cost(call.billed_usd, "billed")

    def of_embedding_usd(self, call: ModelCall) -> float | None:
        """Return what a call of an embedding model cost, in US dollars; None if that is not known."""
        cost = self.of_embedding(call)
        return None if cost is None else cost.usd

    def of_calls(self, calls: Sequence[ModelCall]) -> float | None:
        """Return what the calls cost together; None if one could not be priced. A call that failed without any usage
        was refused, and costs nothing."""
        costs = [
            self.of_call(call)
            for call in calls
            if call.error is None or call.usage is not None or call.billed_usd is not None
        ]
        known_costs = [cost for cost in costs if cost is not None]
        return fsum(known_costs) if len(known_costs) == len(costs) else None

    def _rates(self, model: str, provider: str | None) -> _Rates | None:
        key = (model, provider)
        if key not in self._known:
            # The table has no plain rates to read, so they are those of 1,000 tokens of each part.
            samples = ((1000, 0, 0, 0), (1000, 1000, 0, 0), (1000, 0, 1000, 0), (0, 0, 0, 1000))
            paid = [self._published(model, provider, *tokens) for tokens in samples]
            rates = None if None in paid else _Rates(*(rate * 1000 for rate in paid if rate is not None))
            self._known.put(key, rates)
        return self._known.get(key)

    def _published(
        self,
        model: str,
        provider: str | None,
        sent: int,
        cache_read: int,
        cache_write: int,
        output: int,
        other: Mapping[str, int] = _NONE,
    ) -> float | None:
        """Look the model up at its provider, then at any."""
        used = self._usage(
            input_tokens=sent,
            cache_read_tokens=cache_read or None,
            cache_write_tokens=cache_write or None,
            output_tokens=output,
            **{f"{kind}_tokens": tokens for kind, tokens in other.items()},
        )
        # Some emitters append the kind of API to the provider: "openai.responses".
        named = (provider or "").lower()
        known = _PROVIDERS.get(named) or _PROVIDERS.get(named.partition(".")[0])
        maker = next((at for begin, at in _MAKERS.items() if _bare(model).startswith(begin)), None)
        for at in dict.fromkeys((known, None, maker)):
            for name in dict.fromkeys((model, _bare(model))):
                try:
                    return float(self._calculate(used, model_ref=name, provider_id=at).total_price)
                except (LookupError, ValueError):
                    continue
        return None


def _bare(model: str) -> str:
    return model.rpartition("/")[2]
