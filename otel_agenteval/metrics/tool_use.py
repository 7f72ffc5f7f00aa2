"""Tool use: an agent called the tools that it was expected to call (Gaussia, "Agentic Metric", Tool Correctness).

Deterministic, against calls that are known to be right. Counted is every call that is given, failed ones included;
names are case-sensitive. Four aspects, each in [0, 1], make up the score:

- selection: Jaccard index of the names of used and expected tools. How often a tool was called does not matter.
- parameters: mean over expected calls of the share of parameters on which the used call agrees, of all that either
  of them has. An absent parameter is the same as null; values are equal or not, and "5" is not 5.
- sequence: share of the expected calls that were made in the expected order; 1 where order does not matter.
- utilization: whether the answer uses what the tools returned, as the caller says.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from otel_agenteval.metrics.result import MetricResult, clamp, listed, unit_interval
from otel_agenteval.model import Json

TOOL_USE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {"selection": 0.25, "parameters": 0.25, "sequence": 0.25, "utilization": 0.25}
)
"""Weight of each aspect, as published."""

TOLERANCE = 1e-9
"""Sums of weights, and scores that should reach the threshold, may be off by this much: 0.7 + 0.1 + 0.1 + 0.1 is 1."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool. `step` places it in the order of calls; calls of one step are made side by side."""

    name: str
    parameters: Mapping[str, Json] = field(default_factory=dict)
    step: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name is {self.name!r:.200}, not a non-empty string")
        if not isinstance(self.parameters, Mapping):
            raise ValueError(f"parameters of {self.name} are {self.parameters!r:.200}, not a mapping by name")


_Pair: TypeAlias = tuple[int, int]
"""The place at which a call was expected, and that at which it was made."""


def tool_use_correctness(
    used: Sequence[ToolUse],
    expected: Sequence[ToolUse],
    weights: Mapping[str, float] | None = None,
    order_matters: bool = True,
    answer_uses_tools: bool = False,
    compatible: bool = False,
    threshold: float = 1.0,
) -> MetricResult:
    """Return the weighted mean of the four aspects, in [0, 1].

    Each expected call, in turn, is paired with the unused call of its name that agrees best on the parameters, the
    earliest of several. The sequence counts the pairs that stand in the same order on both sides, the most that do;
    the order of calls is that of their steps, or that given where one of them has no step. Where no tool was expected
    the score is 1 if none was used, else 0; where one was expected and none was used it is 0.

    `compatible=True` gives what the published package gives: parameters by the first used call of the name, sequence
    by equal steps of the i-th calls of the name (no call has no step), a name that was never used counted once however
    often it was expected, and 0 for parameters and sequence where no tool was expected. Where one was, and none was
    used, the score is None.

    `evaluated` is the number of expected calls. Metadata: `aspects` (None: without influence on the score),
    `is_correct` (the score reaches `threshold`), `threshold`, `weights`.
    Raises ValueError for `weights` other than one in [0, 1] for each aspect, 1 in sum, and for a `threshold` outside
    [0, 1].
    """
    used, expected = listed(used, ToolUse, "used"), listed(expected, ToolUse, "expected")
    checked = _check_weights(weights)
    limit = unit_interval(threshold, "threshold")
    aspects: dict[str, Json] = dict.fromkeys(TOOL_USE_WEIGHTS)
    score: float | None
    if expected and not used:
        score, reason = None if compatible else 0.0, f"no call, {len(expected)} expected"
    elif not expected and not compatible:
        score, reason = float(not used), f"{len(used)} calls, none expected"
    else:
        parameters, sequence = (_published if compatible else _paired)(used, expected)
        found = {"selection": _selection(used, expected), "parameters": parameters}
        found |= {"sequence": sequence if order_matters else 1.0, "utilization": float(answer_uses_tools)}
        aspects.update(found)
        score = clamp(math.fsum(checked[name] * value for name, value in found.items()))
        reason = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
    is_correct = None if score is None else score >= limit - TOLERANCE
    metadata: dict[str, Json] = {"aspects": aspects, "is_correct": is_correct, "threshold": limit}
    metadata["weights"] = dict(checked)
    return MetricResult(score=score, reason=reason, evaluated=len(expected), metadata=metadata)


def _check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    given = TOOL_USE_WEIGHTS if weights is None else weights
    if given.keys() != TOOL_USE_WEIGHTS.keys():
        raise ValueError(f"weights are of {sorted(given)}; give one for each of {', '.join(TOOL_USE_WEIGHTS)}")
    checked = {name: unit_interval(given[name], f"weight of {name}") for name in TOOL_USE_WEIGHTS}
    total = math.fsum(checked.values())
    if abs(total - 1.0) > TOLERANCE:
        raise ValueError(f"weights {checked} sum to {total!r}, not to 1")
    return checked


def _selection(used: Sequence[ToolUse], expected: Sequence[ToolUse]) -> float:
    names, wanted = {call.name for call in used}, {call.name for call in expected}
    return len(names & wanted) / len(names | wanted) if names | wanted else 1.0


def _agreement(used: ToolUse, expected: ToolUse) -> float:
    keys = used.parameters.keys() | expected.parameters.keys()
    same = sum(used.parameters.get(key) == expected.parameters.get(key) for key in keys)
    return same / len(keys) if keys else 1.0


def _paired(used: Sequence[ToolUse], expected: Sequence[ToolUse]) -> tuple[float, float]:
    """Return the default scores of parameters and sequence. Both sides have at least one call."""
    unused = _by_name(used)
    used_at, expected_at = _places(used), _places(expected)
    agreement = 0.0
    pairs: list[_Pair] = []
    for call, place in zip(expected, expected_at, strict=True):
        ranked = [(_agreement(used[index], call), -index) for index in unused[call.name]]
        if ranked:
            best, negated = max(ranked)
            unused[call.name].remove(-negated)
            agreement += best
            pairs.append((place, used_at[-negated]))
    return agreement / len(expected), _most_in_order(pairs) / len(expected)


def _most_in_order(pairs: Sequence[_Pair]) -> int:
    """Return the number of pairs in the longest series that stands in the same order on both sides. Calls expected in
    one step may be made in any order; calls expected one after the other may not share a step."""
    ranked = sorted(pairs)
    longest: list[int] = []
    for at, (wanted, made) in enumerate(ranked):
        before = [longest[i] for i, pair in enumerate(ranked[:at]) if pair[1] < made or pair == (wanted, made)]
        longest.append(1 + max(before, default=0))
    return max(longest, default=0)


def _places(calls: Sequence[ToolUse]) -> list[int]:
    steps = [call.step for call in calls if call.step is not None]
    return steps if len(steps) == len(calls) else list(range(len(calls)))


def _published(used: Sequence[ToolUse], expected: Sequence[ToolUse]) -> tuple[float, float]:
    """Return the scores of parameters and sequence as the published package has them."""
    calls_of = _by_name(used)
    parameters: list[float] = []
    sequence: list[float] = []
    for name, wanted in _by_name(expected).items():
        calls = calls_of[name]
        if not calls:
            parameters.append(0.0)
            sequence.append(0.0)
            continue
        for position, index in enumerate(wanted):
            step = used[calls[position]].step if position < len(calls) else None
            parameters.append(_agreement(used[calls[0]], expected[index]))
            sequence.append(float(step == expected[index].step))
    return _mean(parameters), _mean(sequence)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _by_name(calls: Sequence[ToolUse]) -> defaultdict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for index, call in enumerate(calls):
        found[call.name].append(index)
    return found
