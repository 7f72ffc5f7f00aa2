"""Reasons, in words, why a session has no score, or one that rests on part of its traces."""

from collections.abc import Mapping
from typing import Final

from agenteval_collector.sessions.cautious import CautiousScores
from otel_agenteval.metrics import SIGNAL_NAMES
from otel_agenteval.outcome import Status

_FIRST: Final = (
    Status.PENDING,
    Status.OVER_BUDGET,
    Status.NO_JUDGE,
    Status.FAILED,
    Status.SAMPLED_OUT,
    Status.NO_CONTENT,
)


def missing_status(scores: CautiousScores) -> Status:
    """Return the status of a session without a score: the first that one of its missing signals has."""
    found = {status for _, status in scores.missing}
    return next((status for status in _FIRST if status in found), Status.NOT_APPLICABLE)


def unjudged_reason(scores: CautiousScores) -> str | None:
    """Say how many traces lack a signal that was asked for, and why. None where none does."""
    unjudged = scores.unjudged
    if not unjudged:
        return None
    why = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in unjudged.items())
    return f"{sum(unjudged.values())} of {scores.traces} traces are not judged ({why})"


def missing_reasons(scores: CautiousScores, weightless: Mapping[str, str]) -> list[str]:
    """Say why each signal is missing. `weightless` has the reasons of the signals without a weight."""
    parts = [_without_judge(scores), unjudged_reason(scores), *weightless.values()]
    for status, what in ((Status.SAMPLED_OUT, "is sampled out"), (Status.NO_CONTENT, "lacks its content")):
        of_names = {name: count for name in SIGNAL_NAMES if (count := scores.missing.get((name, status)))}
        parts += [f"{name} {what} in {count} of {scores.traces} traces" for name, count in of_names.items()]
    return [part for part in parts if part]


def _without_judge(scores: CautiousScores) -> str | None:
    names = [name for name in SIGNAL_NAMES if (name, Status.NO_JUDGE) in scores.missing]
    if not names:
        return None
    return f"{' and '.join(names)} {'take' if len(names) > 1 else 'takes'} a judge"
