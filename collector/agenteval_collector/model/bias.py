"""Results of asking the judge again about changed traces, and their cost."""

from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    """The one thing that differs when the judge is asked again about a trace."""

    REPEAT = "repeat"
    """Nothing differs: this measures the noise, with which the other changes are compared."""
    PADDED = "padded"
    """The final answer ends with polite text that says nothing."""
    SWAPPED = "swapped"
    """Parts whose order means nothing are in reverse order."""
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
    """A verdict that changed when the judge was asked again."""

    change: Change
    trace_id: str
    session_id: str
    name: str
    before: float
    after: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEffect:
    """The effect of one change on verdicts, compared with those that the traces had before.

    A verdict is pass or fail of one evaluator on one trace. `unanswered` counts the verdicts that the judge did not
    give this time.

    The unit is the session. `flipped` of `sessions` had a flip, `rate` is their share, and `interval` is its 95 %
    Jeffreys interval; both are None without sessions. `p_value` is of McNemar's exact test on sessions that were asked
    about with the change and without it, corrected for the number of changes; None for `repeat`. `mean_change` is the
    mean change of the score, over sessions.
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
