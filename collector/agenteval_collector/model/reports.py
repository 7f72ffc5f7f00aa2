"""Reports from outside beside telemetry: outcomes of runs, and labels."""

from dataclasses import dataclass
from enum import StrEnum


class LabelSource(StrEnum):
    """The sort of author of a label."""

    PERSON = "person"
    """A reviewer."""
    USER = "user"
    """An end user of the agent."""
    EVALUATOR = "evaluator"
    """Another evaluator, whose results came with the telemetry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The outcome of a run as it was reported, and when. None stands for what was not said."""

    task_id: str
    run_id: str
    condition: str = "baseline"
    agent: str | None = None
    service_version: str | None = None
    success: bool | None = None
    confidence: float | None = None
    session_id: str | None = None
    reported_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The value in [0, 1] that somebody says the score `name` should have, and when it was given. None: not said.

    It is about a trace, or else about a session.

    `drawn`: the trace was drawn at random to be labelled, so that the label speaks for others.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudging:
    """The number of traces that wait for the judge after a request to judge them, and whether there are more."""

    traces: int
    more: bool
