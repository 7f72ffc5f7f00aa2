"""The filters of listings of sessions and traces, and the order of sessions."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from agenteval_collector.model.labels import LabelVerdict
from otel_agenteval.finding import Severity


class Order(StrEnum):
    """The order of a listing of sessions."""

    NEWEST = "newest"
    """By time last seen, newest first."""
    ATTENTION = "attention"
    """By urgency: worst findings first, then judged failures, then unusual effort, then time."""


class Below(NamedTuple):
    """Holds if an outcome of this name has a score below `value`."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """The filter of a listing of sessions; None: any. Names are compared exactly.

    `finding` and `severity` are the kind and the severity of one finding of the session. `below` holds for an outcome
    of the session or of one of its traces. `text` was said in the session; case is ignored. The session was last seen
    at `since` or later and before `until`, both in nanoseconds since the Unix epoch.
    """

    agent: str | None = None
    service: str | None = None
    version: str | None = None
    user: str | None = None
    finding: str | None = None
    severity: Severity | None = None
    below: Below | None = None
    text: str | None = None
    since: int | None = None
    until: int | None = None
    environment: str | None = None
    order: Order = Order.NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """The filter of a listing of traces; None: any. It is that of sessions, read for each trace: the user, the service
    and the environment are those of its session, and it started at `since` or later and before `until`.

    `problem` is the id of a problem that it shows. `label` is what somebody said of one of its scores.
    """

    agent: str | None = None
    service: str | None = None
    version: str | None = None
    user: str | None = None
    environment: str | None = None
    finding: str | None = None
    severity: Severity | None = None
    below: Below | None = None
    text: str | None = None
    since: int | None = None
    until: int | None = None
    problem: str | None = None
    label: LabelVerdict | None = None


EVERY_SESSION: Final = SessionFilter()
"""All sessions, the newest first."""
