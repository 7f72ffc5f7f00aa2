"""Sessions and their traces, as evaluation, sessions and store exchange them."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from agenteval_collector.model.agents import AgentKey
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

    `service` is that in which its `agent` runs, `services` are all that took part in it. Times are in nanoseconds since
    the Unix epoch. `last_seen_at` is when its newest telemetry was received. `effort` is
    the sum over its traces; `is_unusual`: more than sessions of this agent usually take. `is_blind`: its traces hold
    nothing that could be looked at.

    `revision` rises whenever what was said changes: with a trace that comes or goes, and with a late revision of one
    that says something else.
    """

    session_id: str
    user_id: str | None
    agent: str | None
    service: str | None = None
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

    @property
    def key(self) -> AgentKey:
        """Its agent."""
        return AgentKey(self.agent, self.service)


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
class Member:
    """A trace of a session, with its signals for session scores.

    `said` has a summary of each turn. The store has no summaries. It gives the `turns`, if they are asked for.
    """

    trace_id: str
    started_at: int
    signals: Signals = field(default_factory=dict)
    effort: Effort = NO_EFFORT
    said: Sequence[TurnSummary] = ()
    turns: Sequence[TurnView] = ()

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the traces of its session: start and id."""
        return self.started_at, self.trace_id


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class SessionSums:
    """Sums over the traces of a session: with these it goes on without reading its traces again.

    The format belongs to the package `sessions`.
    """

    sums: str
    risks: bytes


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as the store holds it, with its `newest` traces by start and their answers. `sums` is None if its
    traces have to be added up again."""

    state: SessionState
    newest: Sequence[Member]
    sums: SessionSums | None


class AttentionRow(NamedTuple):
    """What a session is ordered by attention with, without its end. `last` is the effort of its last trace."""

    session_id: str
    effort: Effort
    last: Effort
    errors: int
    warnings: int
    infos: int
    judged_failed: bool


class SessionEnding(NamedTuple):
    """The ending of a session, as far as anybody said. None: not said.

    `reported` is the success of its run. `labelled` is the lowest label of task completion that people gave its traces.
    `judged`: the judge found all its traces completed. `has_error`: it has a finding of severity error.
    """

    has_error: bool
    session_id: str = ""
    reported: bool | None = None
    labelled: float | None = None
    judged: bool | None = None


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
