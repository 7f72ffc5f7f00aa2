"""The tokens and the money of model calls, part by part. What was not recorded is None, never 0."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from math import fsum
from typing import Any, Final, Literal, NamedTuple

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import ModelCall, Usage

CostSource = Literal["billed", "priced"]


class Cost(NamedTuple):
    """What a model call cost in US dollars. `is_lower_bound`: a part of its tokens is not known."""

    usd: float
    source: CostSource
    is_lower_bound: bool = False


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """The tokens and the money of the model calls of a trace or a session.

    `input` is what was sent afresh: neither read from the provider's cache nor written to it. `output` has the tokens
    of `reasoning` in it. `embedding` is what embedding models were sent. `other` has the tokens of other modalities
    than text, which are in the others too. `billed_usd` and `priced_usd` are US dollars: what emitters say of their
    bills, and what price lists say. `unknown_calls` counts the calls of which a part is not known.
    """

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    embedding: int | None = None
    other: Mapping[str, int] = field(default_factory=dict)
    billed_usd: float | None = None
    priced_usd: float | None = None
    unknown_calls: int = 0

    def __add__(self, other: "UsageTotals") -> "UsageTotals":
        return self._with(other, 1)

    def __sub__(self, other: "UsageTotals") -> "UsageTotals":
        return self._with(other, -1)

    @property
    def cost_usd(self) -> float | None:
        """What it cost as far as that is known."""
        known_costs = [cost for cost in (self.billed_usd, self.priced_usd) if cost is not None]
        return round(fsum(known_costs), 9) if known_costs else None

    @property
    def cost_source(self) -> CostSource | None:
        """What most of the money rests on; None if no cost is known."""
        if self.billed_usd is None and self.priced_usd is None:
            return None
        return "billed" if (self.billed_usd or 0.0) > (self.priced_usd or 0.0) or self.priced_usd is None else "priced"

    @property
    def is_lower_bound(self) -> bool:
        """True if a part of it is not known."""
        return self.unknown_calls > 0

    def _with(self, other: "UsageTotals", sign: int) -> "UsageTotals":
        """Add or subtract what is known of `other`. What neither knows stays unknown."""
        sums: dict[str, Any] = {name: _sum(getattr(self, name), getattr(other, name), sign) for name in _PARTS}
        unknown = max(0, self.unknown_calls + sign * other.unknown_calls)
        if not self.other and not other.other:
            return UsageTotals(**sums, unknown_calls=unknown)
        mixed = Counter(self.other)
        mixed.update({kind: sign * tokens for kind, tokens in other.other.items()})
        return UsageTotals(**sums, other=dict(+mixed), unknown_calls=unknown)


NO_USAGE: Final = UsageTotals()
_PARTS: Final = tuple(field.name for field in fields(UsageTotals) if field.name not in ("other", "unknown_calls"))


def usage_from(stored: Mapping[str, Any] | None) -> UsageTotals:
    """Return the totals from their JSON object."""
    return NO_USAGE if stored is None else UsageTotals(**stored)


def embeddings_usage(calls: Sequence[ModelCall], cost_of: Callable[[ModelCall], Cost | None]) -> UsageTotals:
    """Return the totals of calls of embedding models."""
    if not calls:
        return NO_USAGE
    totals = usage_of(calls, cost_of)
    return replace(totals, input=None, cache_read=None, cache_write=None, embedding=totals.input)


def usage_of(calls: Sequence[ModelCall], cost_of: Callable[[ModelCall], Cost | None]) -> UsageTotals:
    """Return the totals of model calls. A call that failed without any usage was refused: it has none."""
    counted = [call for call in calls if call.error is None or call.usage is not None or call.billed_usd is not None]
    if not counted:
        return NO_USAGE
    costs = [cost_of(call) for call in counted]
    used = [call.usage or _NOT_RECORDED for call in counted]
    known_costs = [cost for cost in costs if cost is not None]
    return UsageTotals(
        input=_total([usage.fresh_input_tokens for usage in used]),
        cache_read=_total([usage.cache_read_tokens for usage in used]),
        cache_write=_total([usage.cache_write_tokens for usage in used]),
        output=_total([usage.output_tokens for usage in used]),
        reasoning=_total([usage.reasoning_tokens for usage in used]),
        other=dict(sum((Counter(usage.other) for usage in used), Counter()))
        if any(call.other for call in used)
        else {},
        billed_usd=_money(cost.usd for cost in known_costs if cost.source == "billed"),
        priced_usd=_money(cost.usd for cost in known_costs if cost.source == "priced"),
        unknown_calls=sum(cost is None or cost.is_lower_bound for cost in costs),
    )


_NOT_RECORDED: Final = Usage()


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known; None if nothing is."""
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None


def _money(amounts: Iterable[float]) -> float | None:
    known = [*amounts]
    return fsum(known) if known else None


def _sum(mine: float | None, theirs: float | None, sign: int) -> float | None:
    if theirs is None:
        return mine
    return sign * theirs if mine is None else mine + sign * theirs
