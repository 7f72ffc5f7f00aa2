"""The contribution of one trace to the scores of its session.

A signal is the score of one trace by one of four evaluators. The risk of a signal is weight x (1 - signal). An absent
signal contributes nothing: it does not count as 0. Names that are not signals are ignored. As published, a trace with a
signal of weight 0 counts as a trace that was looked at. But such a signal is no evidence: coverage takes it as missing.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.metrics.result import unit_interval

DEFAULT_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"confidence": 1.0, "loop_detection": 1.0, "tool_correctness": 0.8, "coherence": 1.0}
)
"""The weight of each signal, as published."""

SIGNAL_NAMES: Final = tuple(DEFAULT_WEIGHTS)
"""The names of the signals that session scores rest on."""

Signals = Mapping[str, float | None]
"""Scores of one trace, in [0, 1], by the name of the signal. None means absent."""


@checked_dataclass(frozen=True, slots=True)
class Contribution:
    """The share of one trace in the scores of its session.

    `risk` is None for a trace without a signal, `uncertainty` for a trace without confidence. `present` counts the
    signals of non-zero weight. `confident` is True if confidence is one of these.
    """

    risk: float | None
    uncertainty: float | None
    present: int
    confident: bool


def merge_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Return `DEFAULT_WEIGHTS`, with `weights` in their place where given.

    Raises ValueError for the name of no signal, and for a weight outside [0, 1].
    """
    merged = dict(DEFAULT_WEIGHTS)
    for name, weight in (weights or {}).items():
        if name not in merged:
            raise ValueError(f"weight of unknown signal {name!r}; the signals are {', '.join(SIGNAL_NAMES)}")
        merged[name] = unit_interval(weight, f"weight of {name}")
    return merged


def contribution(signals: Signals | None, weights: Mapping[str, float], trace: object) -> Contribution:
    """Return the contribution of `signals` under merged `weights`.

    `risk` is the largest weighted risk, in [0, 1]. `uncertainty` is the weighted risk of confidence x (1 + the sum of
    the other weighted risks), in [0, 4]. Raises ValueError, which names `trace`, for a signal outside [0, 1].
    """
    if signals is not None and not isinstance(signals, Mapping):
        raise ValueError(f"signals of trace {trace!r} are {signals!r:.200}, not a mapping by name")
    risks: dict[str, float] = {}
    for name in SIGNAL_NAMES:
        value = (signals or {}).get(name)
        if value is not None:
            score = unit_interval(value, f"{name} of trace {trace!r}")
            risks[name] = weights[name] * (1.0 - score)
    return Contribution(
        risk=max(risks.values(), default=None),
        uncertainty=_uncertainty(risks),
        present=sum(weights[name] > 0.0 for name in risks),
        confident="confidence" in risks and weights["confidence"] > 0.0,
    )


def _uncertainty(risks: Mapping[str, float]) -> float | None:
    if "confidence" not in risks:
        return None
    penalty = math.fsum(risk for name, risk in risks.items() if name != "confidence")
    return (1.0 + penalty) * risks["confidence"]
