"""The canaries of the judge, and the drift that they show."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A trace that the judge is asked about regularly since `chosen_at` (ns), to notice when the judge drifts."""

    trace_id: str
    session_id: str
    revision: int
    chosen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryAnswer:
    """The scores of one evaluator, asked in one way (`version` of the question, `model`), for a canary.

    `model` is the model that was asked; for the score that the trace had when it was chosen, the model that its outcome
    names. `first` and `last` are the first and the newest score, at `first_at` and `last_at` (ns); None if the judge
    gave none. `reason` explains the newest.
    """

    trace_id: str
    name: str
    version: str
    model: str
    threshold: float
    first: float | None
    first_at: int
    last: float | None
    last_at: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A canary that passed and fails now, or the other way round."""

    trace_id: str
    before: float
    after: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The newest scores of one evaluator, compared with earlier ones on the same traces.

    `was` names the model and the question's version of the earlier ones. `higher` and `lower` count changed scores.
    `p_value` is None if nothing was asked again yet.
    """

    name: str
    version: str
    model: str
    was: str
    traces: int
    higher: int
    lower: int
    flips: tuple[Flip, ...]
    p_value: float | None
    drifted: bool
