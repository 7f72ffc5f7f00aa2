"""Labels of scores: what people, end users and other evaluators say that a score should have been.

The command line imports this module, so it loads no mathematics (`labelled_scores.py` does).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class LabelSource(StrEnum):
    """The kind of author of a label."""

    PERSON = "person"
    """A reviewer."""
    USER = "user"
    """An end user of the agent."""
    EVALUATOR = "evaluator"
    """Another evaluator, whose results came with the telemetry."""


class LabelVerdict(StrEnum):
    """What a label says of a score."""

    PASS = "pass"
    FAIL = "fail"


PASSING: Final = 0.5
"""The least value of a label that says `pass`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The value in [0, 1] that somebody says the score `name` should have. None: not said.

    It is about a trace, or else about a session. `labelled_at` is in nanoseconds since the Unix epoch. `drawn`: the
    trace was drawn at random to be labelled, so the label speaks for others. `sender` is the key of a caller who may
    only write (`Caller.speaks_as`): a label replaces none of another key.
    """

    trace_id: str | None = None
    session_id: str | None = None
    name: str
    value: float
    author: str | None = None
    note: str | None = None
    source: LabelSource = LabelSource.PERSON
    drawn: bool = False
    labelled_at: int | None = None
    sender: str = ""
