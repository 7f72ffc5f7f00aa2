"""The scores of the replies to a question, and the versions of questions."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from agenteval_collector.judge.ports import Reading, Reply
from otel_agenteval.model import Json
from otel_agenteval.outcome import Score


def version_of(form_version: str, asked: Json) -> str:
    """Make the version of a question that users write: another text, scale or constraint is another version."""
    return f"{form_version}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:8]}"


def by_median(
    evaluator: str,
    threshold: float,
    *,
    part: str | None = None,
    key: str = "score",
    scale: tuple[float, float] = (0.0, 1.0),
    metadata: Mapping[str, Json] | None = None,
) -> Reading:
    """Read the score under `key` and its reason in one `part` of each reply, or in the whole reply.

    The score of all is the median, with the reason of the vote nearest to it (the first of several). The worst of
    `scale` becomes 0, the best 1.
    """
    worst, best = scale

    def of(reply: Reply) -> Mapping[str, Any]:
        found: Mapping[str, Any] = reply if part is None else reply[part]
        return found

    def value(reply: Reply) -> float:
        score: float = (of(reply)[key] - worst) / (best - worst)
        return score

    def conclude(replies: Sequence[Reply]) -> Score:
        middle = median(map(value, replies))
        nearest = min(replies, key=lambda reply: abs(value(reply) - middle))
        reason = of(nearest)["reason"] or "the judge gave no reason"
        return Score(value=middle, reason=reason, metadata=metadata or {})

    return Reading(evaluator=evaluator, threshold=threshold, value=value, conclude=conclude)
