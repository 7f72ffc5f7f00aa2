"""Scores of a session from the signals of its traces (PandaProbe, "Agent Reliability" and "Agent Consistency").

Both scores are 1.0 if nothing lowers them, and a missing signal cannot lower them. So read a score together with its
coverage. Every sum is exact and is rounded only once, so the order of the traces does not matter.

`SessionScores` stays current while traces arrive and change, at little cost for each trace. The traces are split into
the riskiest 15 %, whose risks are kept as a sum, and the rest. Each trace that arrives or changes moves a few across
the border. The scores can be saved, and taken up again as they were.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from otel_agenteval.metrics.result import MetricResult, clamp
from otel_agenteval.metrics.signals import SIGNAL_NAMES, Contribution, Signals, contribution, merge_weights
from otel_agenteval.metrics.tail import ExactSum, TailRisk, tail_size
from otel_agenteval.model import Json

FLAG_ABOVE = 0.5
"""The risk above which a trace is flagged."""

MAX_RISK_SHARE = 0.1
"""The share of the worst trace in the risk of a session. The rest is the mean risk of the riskiest 15 %."""

_COUNTS: Final = ("traces", "flagged", "uncertain", "evaluated", "confident", "present", "expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedScores:
    """Saved scores of a session. They can only be taken up again with the same weights.

    `counts` are in the order of `_COUNTS`. `squares` and `tail` are exact sums. `risks` has the byte order of this
    machine.
    """

    counts: Sequence[int]
    squares: Sequence[int]
    tail: Sequence[int]
    risks: bytes


_NOTHING: Final = SavedScores(counts=[0] * len(_COUNTS), squares=(0, 0), tail=(0, 0), risks=b"")


class SessionScores:
    """`agent_reliability` and `agent_consistency` of one session, while traces are added and removed.

    One `add` or `remove` takes O(log n) time, amortised, for n traces so far. Everything else takes constant time. Each
    trace takes eight bytes of memory. Not thread-safe.
    """

    def __init__(self, weights: Mapping[str, float] | None = None, saved: SavedScores = _NOTHING) -> None:
        """Start with the traces of `saved`, by default none.

        Raises ValueError for a weight of an unknown signal, and for one outside [0, 1].
        """
        self._weights = merge_weights(weights)
        self._risks = TailRisk(saved.risks, saved.tail)
        self._squares = ExactSum(saved.squares)
        self._traces, self._flagged, self._uncertain, self._evaluated, self._confident = saved.counts[:5]
        self._present, self._expected = saved.counts[5:]

    @property
    def saved(self) -> SavedScores:
        """The present state, from which equal scores can be made again."""
        return SavedScores(
            counts=[getattr(self, f"_{name}") for name in _COUNTS],
            squares=self._squares.saved,
            tail=self._risks.sum.saved,
            risks=self._risks.saved,
        )

    def add(self, trace: object, signals: Signals, not_applicable: Collection[str] = ()) -> Contribution:
        """Add the signals of a trace, and return its contribution. `trace` names the trace in errors only.

        `not_applicable` names signals that cannot exist for this trace, so coverage does not expect them. Names that
        are not signals are ignored. Raises ValueError, and changes nothing, for a signal outside [0, 1] and for a
        signal that is both present and not applicable.
        """
        # All checks come before the first change, so that a refused trace changes nothing.
        addend = contribution(signals, self._weights, trace)
        for name in SIGNAL_NAMES:
            if name in not_applicable and signals.get(name) is not None:
                raise ValueError(f"{name} of trace {trace!r} is both present and not applicable")
        if addend.risk is not None:
            self._risks.add(addend.risk)
        self._count(addend, not_applicable, +1)
        return addend

    def remove(self, trace: object, signals: Signals, not_applicable: Collection[str] = ()) -> None:
        """Remove a trace that was added with the same signals.

        Raises LookupError, and changes nothing, if the session has no trace of this risk.
        """
        addend = contribution(signals, self._weights, trace)
        if addend.risk is not None:
            self._risks.remove(addend.risk)
        self._count(addend, not_applicable, -1)

    def reliability(self) -> MetricResult:
        """Return the same as `agent_reliability`, without the metadata of single traces.

        Coverage does not expect signals that are not applicable.
        """
        scored = len(self._risks)
        if not self._evaluated:
            return self._nothing_evaluated(scored)
        mean_top_k_risk, max_risk = self._risks.sum.value / tail_size(scored), self._risks.largest
        share = f"{self._flagged} of {self._evaluated} traces with signals above risk {FLAG_ABOVE}"
        return MetricResult(
            score=clamp(1.0 - ((1.0 - MAX_RISK_SHARE) * mean_top_k_risk + MAX_RISK_SHARE * max_risk)),
            reason=f"{share}, the largest is {max_risk:.4f}",
            evaluated=self._evaluated,
            coverage=self._coverage,
            metadata={**self._counts(scored), "max_risk": max_risk, "mean_top_k_risk": mean_top_k_risk},
        )

    def consistency(self) -> MetricResult:
        """Return the same as `agent_consistency`, without the metadata of single traces.

        Coverage does not expect signals that are not applicable.
        """
        if not self._confident:
            return self._nothing_evaluated(self._uncertain)
        rms = math.sqrt(self._squares.value / self._uncertain)
        return MetricResult(
            score=clamp(1.0 - rms),
            reason=f"root mean square uncertainty {rms:.4f} over {self._uncertain} traces",
            evaluated=self._confident,
            coverage=self._coverage,
            metadata={**self._counts(self._uncertain), "rms": rms},
        )

    def _count(self, addend: Contribution, not_applicable: Collection[str], sign: int) -> None:
        self._traces += sign
        self._evaluated += sign * (addend.present > 0)
        self._confident += sign * addend.confident
        self._present += sign * addend.present
        self._expected += sign * sum(name not in not_applicable for name in SIGNAL_NAMES)
        self._flagged += sign * _is_flagged(addend)
        if addend.uncertainty is not None:
            self._uncertain += sign
            self._squares.add(addend.uncertainty * addend.uncertainty, sign)

    @property
    def _coverage(self) -> float | None:
        """The share of the expected signals that were present with a non-zero weight. None if none was expected."""
        return self._present / self._expected if self._expected else None

    def _nothing_evaluated(self, scored: int) -> MetricResult:
        return MetricResult(
            score=1.0,
            reason="no evaluable traces" if self._traces else "no traces or signals to evaluate",
            evaluated=0,
            coverage=self._coverage,
            metadata=self._counts(scored),
        )

    def _counts(self, scored: int) -> dict[str, Json]:
        return {
            "traces": self._traces,
            "evaluated_traces": scored,
            "skipped_traces": self._traces - scored,
            "weights": dict(self._weights),
        }


def agent_reliability(signals: Sequence[Signals | None], weights: Mapping[str, float] | None = None) -> MetricResult:
    """Score the distance of a session's worst traces from failure.

    The risk of a trace is the largest weighted risk w (1 - signal) of its signals. The tail is the riskiest 15 % of the
    traces with a signal, rounded up. The score is 1 - (0.9 x mean risk of the tail + 0.1 x largest risk).

    `evaluated` is the number of traces with a signal of non-zero weight. If it is 0, the score is 1.0. Metadata:
    `traces`, `evaluated_traces` (with any signal), `skipped_traces`, `risks` (per trace), `flagged` (indexes of traces
    with a risk above 0.5), `max_risk`, `mean_top_k_risk`, `weights`.
    Raises ValueError for a signal or weight outside [0, 1], and for a weight of an unknown signal.
    """
    scores, addends = _scores(signals, weights)
    result = scores.reliability()
    risks: list[Json] = [addend.risk for addend in addends]
    flagged: list[Json] = [index for index, addend in enumerate(addends) if _is_flagged(addend)]
    return replace(result, metadata={**result.metadata, "risks": risks, "flagged": flagged})


def agent_consistency(signals: Sequence[Signals | None], weights: Mapping[str, float] | None = None) -> MetricResult:
    """Score the smoothness of a session, over its traces that have a confidence.

    The uncertainty of a trace is w (1 - confidence) x (1 + the sum of the weighted risks of its other signals). The
    score is 1 - the root mean square of the uncertainties. So it sees nothing if confidence is 1.

    `evaluated` is the number of traces with confidence, or 0 if confidence has the weight 0. If it is 0, the score is
    1.0. Metadata: `traces`, `evaluated_traces`, `skipped_traces`, `uncertainties` (per trace), `rms`, `weights`.
    Raises ValueError as `agent_reliability` does.
    """
    scores, addends = _scores(signals, weights)
    result = scores.consistency()
    uncertainties: list[Json] = [addend.uncertainty for addend in addends]
    return replace(result, metadata={**result.metadata, "uncertainties": uncertainties})


def _scores(
    signals: Sequence[Signals | None], weights: Mapping[str, float] | None
) -> tuple[SessionScores, list[Contribution]]:
    if isinstance(signals, str | Mapping) or not isinstance(signals, Sequence):
        raise ValueError(f"signals are {signals!r:.200}, not a sequence with those of each trace")
    scores = SessionScores(weights)
    return scores, [scores.add(index, {} if signal is None else signal) for index, signal in enumerate(signals)]


def _is_flagged(addend: Contribution) -> bool:
    return addend.risk is not None and addend.risk > FLAG_ABOVE
