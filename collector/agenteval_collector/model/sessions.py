"""Sessions and their traces, as evaluation, sessions and store exchange them."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.trace_view import TurnView
from agenteval_collector.model.turn_summary import TurnSummary
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.outcome import Evaluation

Signals = Mapping[str, Evaluation]
"""Outcomes of one trace that may be signals of session scores, by name."""


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session after its newest trace.

    Times are in nanoseconds since the Unix epoch. `last_seen_at` is when its newest telemetry was received. `effort` is
    the sum over its traces; `is_unusual`: more than sessions of this agent usually take. `is_blind`: its traces hold
    nothing that could be looked at.

    `revision` rises whenever what was said changes: with a trace that comes or goes, and with a late revision of one
    that says something else.
    """

    session_id: str
    user_id: str | None
    agent: str | None
    services: Sequence[str]
    versions: Sequence[str] = ()
    environment: str | None = None
    started_at: int
    last_seen_at: int
    trace_count: int
    revision: int = 0
    effort: Effort = NO_EFFORT
    is_unusual: bool = False
    is_blind: bool = True
    finalized_at: int | None = None
    ended_at: int | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlace:
    """A stored trace's session, and its place there: its start and id.

    `pending`: it may wait for the judge. `effort` is the trace's.
    """

    session_id: str
    place: tuple[int, str]
    revision: int
    pending: bool = False
    effort: Effort = NO_EFFORT


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """A trace of a session as the store holds it. `turns` are empty unless they were asked for."""

    trace_id: str
    started_at: int
    signals: dict[str, Evaluation]
    effort: Effort = NO_EFFORT
    turns: Sequence[TurnView] = ()


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class SessionSums:
    """Sums over the traces of a session: with these it goes on without reading its traces again.

    The format belongs to the package `sessions`.
    """

    sums: str
    risks: bytes


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as the store holds it, with its `newest` traces by start and their answers. `sums` is None where its
    traces have to be added up again."""

    state: SessionState
    newest: Sequence[StoredTrace]
    sums: SessionSums | None


class SessionEnding(NamedTuple):
    """The ending of a session, as far as anybody said. None: not said.

    `reported` is the success of its run. `labelled` is the lowest label of task completion that people gave its traces.
    `judged`: the judge found all its traces completed. `has_error`: it has a finding of severity error.
    """

    has_error: bool
    reported: bool | None = None
    labelled: float | None = None
    judged: bool | None = None


@checked_dataclass(slots=True, kw_only=True)
class Member:
    """A trace of a session: a summary of each turn, and its signals for session scores."""

    trace_id: str
    started_at: int
    said: Sequence[TurnSummary]
    signals: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the traces of its session: start and id."""
        return self.started_at, self.trace_id


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """A session after one more trace: the state to store, its scores, and the sums that these were made from."""

    state: SessionState
    evaluations: Sequence[Evaluation]
    sums: SessionSums | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class SessionLevel:
    """The numbers of active and of low sessions of one agent in one service, by `evaluator`.

    `evaluator` None stands for all active sessions, scored or not.
    """

    agent: str | None
    service: str | None
    evaluator: str | None
    active: int
    low: int


class PastSession(NamedTuple):
    """A finished session's score by one evaluator. `low`: it is below the threshold."""

    agent: str | None
    service: str | None
    evaluator: str
    low: bool
