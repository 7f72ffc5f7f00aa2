"""Which outcomes of a trace are the signals of its session's scores, where there may be two of one name.

What the judge says comes before what was found without it. Where the judge is to say something and has not, because
it is away, its budget is spent or it failed, there is no signal: a cheap outcome in its place could raise the score.
Where the judge is not asked, the cheap outcome is the signal, if it was found to be worth a weight.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agenteval_collector.records import Signals
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.outcome import Evaluation, Method, Score, Status

UNJUDGED = (Status.PENDING, Status.OVER_BUDGET, Status.FAILED)
"""What a judged outcome is that should be a score; a trace, and a session, counts by the first of these that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSignals:
    """The signals of one trace: the scores by name, the names that cannot exist for it, the names of the signals of
    non-zero weight that the judge has not given, and why, None where it has given all."""

    values: Mapping[str, float]
    not_applicable: frozenset[str]
    missing: frozenset[str]
    unjudged: Status | None


class SignalChoice:
    """Called with a trace's outcomes for its signals.

    `weights` are those of all signals. `cheap` names the signals that count without a judge.
    """

    def __init__(self, weights: Mapping[str, float], cheap: Collection[str]) -> None:
        self._weights = weights
        self._cheap = frozenset(cheap)

    def __call__(self, signals: Signals) -> TraceSignals:
        chosen = {name: each for name in SIGNAL_NAMES if (each := self._chosen(name, signals)) is not None}
        statuses = {name: each.outcome.status for name, each in chosen.items()}
        missing = {
            name: status for name, status in statuses.items() if self._weights[name] > 0.0 and status in UNJUDGED
        }
        return TraceSignals(
            values={name: each.outcome.value for name, each in chosen.items() if isinstance(each.outcome, Score)},
            not_applicable=frozenset(name for name, status in statuses.items() if status is Status.NOT_APPLICABLE),
            missing=frozenset(missing),
            unjudged=min(missing.values(), key=UNJUDGED.index, default=None),
        )

    def _chosen(self, name: str, signals: Signals) -> Evaluation | None:
        judged = signals.get((name, Method.LLM))
        if judged is not None and judged.outcome.status is not Status.SAMPLED_OUT:
            return judged
        if name not in self._cheap:
            return judged
        cheap = [each for (known, method), each in signals.items() if known == name and method is not Method.LLM]
        return cheap[-1] if cheap else judged
