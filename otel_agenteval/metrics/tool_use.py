"""Tool use: whether an agent made the expected tool calls (Gaussia, "Agentic Metric", Tool Correctness).

The comparison with calls that are known to be right is deterministic. Every given call counts, also a failed one. Names
are case-sensitive. The score has four aspects, each in [0, 1]:

- selection: the Jaccard index of the names of used and expected tools. The number of calls of a tool does not matter.
- parameters: the mean, over the expected calls, of the share of parameters on which the used call agrees. The share is
  of all parameters that either call has. An absent parameter equals null. Values are equal or not, and "5" is not 5.
- sequence: the share of the expected calls that were made in the expected order. It is 1 if order does not matter.
- utilization: 1 if the caller says that the answer uses the results of the tools, else 0.
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
"""The weight of each aspect, as published."""

TOLERANCE = 1e-9
"""The allowed error of a sum of weights, and of a score that reaches the threshold, so that 0.7 + 0.1 x 3 is 1."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool. `step` is its place in the order of calls. Calls of one step are made side by side.

    Raises ValueError for a name that is not a non-empty string, and for parameters that are not a mapping.
    """

    name: str
    parameters: Mapping[str, Json] = field(default_factory=dict)
    step: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name is {self.name!r:.200}, not a non-empty string")
        if not isinstance(self.parameters, Mapping):
            raise ValueError(f"parameters of {self.name} are {self.parameters!r:.200}, not a mapping by name")


_Pair: TypeAlias = tuple[int, int]
"""The place at which a call was expected, and the place at which it was made."""


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

    Each expected call, in turn, is paired with the best used call of its name that has no partner yet. The best call
    agrees on most parameters. If several do, the earliest is taken. The sequence counts the longest series of pairs
    that is in the same order on both sides. Calls are in the order of their steps, or in the given order if a call has
    no step. If no tool was expected, the score is 1 if none was used, else 0. If a tool was expected and none was used,
    the score is 0.

    `compatible=True` gives the values of the published package. Parameters compare with the first used call of the
    name. Sequence compares the steps of the i-th calls of the name, where a missing call has no step. A name that was
    never used counts once, however often it was expected. If no tool was expected, parameters and sequence are 0. If a
    tool was expected and none was used, the score is None.

    `evaluated` is the number of expected calls. Metadata: `aspects` (None: no influence on the score), `is_correct`
    (whether the score reaches `threshold`), `threshold`, `weights`.
    Raises ValueError unless `weights` has one weight in [0, 1] for each aspect, with the sum 1. Raises it also for a
    `threshold` outside [0, 1].
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
        scores = {"selection": _selection(used, expected), "parameters": parameters}
        scores |= {"sequence": sequence if order_matters else 1.0, "utilization": float(answer_uses_tools)}
        aspects.update(scores)
        score = clamp(math.fsum(checked[name] * value for name, value in scores.items()))
        reason = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
    is_correct = None if score is None else score >= limit - TOLERANCE
    metadata: dict[str, Json] = {"aspects": aspects, "is_correct": is_correct, "threshold": limit}
    metadata["weights"] = dict(checked)
    return MetricResult(score=score, reason=reason, evaluated=len(expected), metadata=metadata)


def _check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    by_part = TOOL_USE_WEIGHTS if weights is None else weights
    if by_part.keys() != TOOL_USE_WEIGHTS.keys():
        raise ValueError(f"weights are of {sorted(by_part)}; give one for each of {', '.join(TOOL_USE_WEIGHTS)}")
    checked = {name: unit_interval(by_part[name], f"weight of {name}") for name in TOOL_USE_WEIGHTS}
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
    """Pair each expected call with the unused call of its name whose arguments agree best.

    Return the shares of arguments that agree and of calls in the right order. Both sides have at least one call.
    """
    unused = _by_name(used)
    used_at, expected_at = _places(used), _places(expected)
    agreement = 0.0
    pairs: list[_Pair] = []
    for call, place in zip(expected, expected_at, strict=True):
        # The index is negated, so that the maximum is the earliest of equally good calls.
        ranked = [(_agreement(used[index], call), -index) for index in unused[call.name]]
        if ranked:
            best, negated = max(ranked)
            unused[call.name].remove(-negated)
            agreement += best
            pairs.append((place, used_at[-negated]))
    return agreement / len(expected), _most_in_order(pairs) / len(expected)


def _most_in_order(pairs: Sequence[_Pair]) -> int:
    """Return the number of pairs in the longest series that is in the same order on both sides.

    Calls that are expected in one step may be made in any order. Calls that are expected one after the other may not
    share a step.
    """
    ranked = sorted(pairs)
    longest: list[int] = []
    for at, (wanted, used) in enumerate(ranked):
        before = [longest[i] for i, pair in enumerate(ranked[:at]) if pair[1] < used or pair == (wanted, used)]
        longest.append(1 + max(before, default=0))
    return max(longest, default=0)


def _places(calls: Sequence[ToolUse]) -> list[int]:
    steps = [call.step for call in calls if call.step is not None]
    return steps if len(steps) == len(calls) else list(range(len(calls)))


def _published(used: Sequence[ToolUse], expected: Sequence[ToolUse]) -> tuple[float, float]:
    """Return the scores of parameters and sequence by the rules of the published package."""
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
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for index, call in enumerate(calls):
        positions[call.name].append(index)
    return positions
