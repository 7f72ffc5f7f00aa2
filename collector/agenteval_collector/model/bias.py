"""Results of asking the judge again about changed traces, and their cost."""

from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    """The one thing that differs when the judge is asked again about a trace."""

    REPEAT = "repeat"
    """Nothing: the noise that the others are compared with."""
    PADDED = "padded"
    """The final answer has polite text without meaning at its end."""
    SWAPPED = "swapped"
    """Parts that have no order of their own stand in reverse."""
    RENAMED = "renamed"
    """Agents, models and tools have other names."""
    SECOND_MODEL = "second_model"
    """`judge.second_model` is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The requests, tokens and money for asking about `traces` traces. `usd` is None where a model has no price."""

    change: Change
    traces: int
    requests: int
    input_tokens: int
    output_tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFlip:
    """A verdict that was the other one when the judge was asked again."""

    change: Change
    trace_id: str
    session_id: str
    name: str
    before: float
    after: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEffect:
    """Verdicts under one change, compared with those that the traces had before.

    A verdict is pass or fail of one evaluator on one trace; `unanswered` counts those that the judge did not give this
    time. The session is the unit: `flipped` of `sessions` had a flip, `rate` is their share, `interval` is Jeffreys'
    of 95 %; None where there are no sessions. `p_value` is of McNemar's exact test on the sessions that were asked
    about both with the change and without one, corrected for the number of changes; None for `repeat`. `mean_change`
    is of scores, the mean over sessions.
    """

    cost: Cost
    verdicts: int
    unanswered: int
    to_pass: int
    to_fail: int
    sessions: int
    flipped: int
    rate: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    is_beyond_noise: bool | None
    mean_change: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasReport:
    """The effects of all changes that were asked about, on `traces` traces drawn with `seed`.

    `stopped` says why not all was asked; None where it was.
    """

    seed: int
    traces: int
    effects: tuple[ChangeEffect, ...]
    flips: tuple[VerdictFlip, ...]
    stopped: str | None = None
