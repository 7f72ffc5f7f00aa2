"""Sessions and their traces, as they pass between evaluation, sessions and the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenteval_collector.model.documents import Document
from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.said import SaidTurn
from otel_agenteval.outcome import Evaluation

Signals = Mapping[str, Evaluation]
"""Outcomes of one trace that may be signals of session scores, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as it is after its newest trace. Times in nanoseconds since the Unix epoch; `last_seen_at` is when the
    newest of its telemetry was received. `effort` is what its traces took together, `is_unusual`: that was found to be
    more than its agent's sessions usually take. `is_blind`: nothing of any of its traces could be looked at."""

    session_id: str
    user_id: str | None
    agent: str | None
    services: Sequence[str]
    versions: Sequence[str] = ()
    started_at: int
    last_seen_at: int
    trace_count: int
    effort: Effort = NO_EFFORT
    is_unusual: bool = False
    is_blind: bool = True
    finalized_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The session of a trace's revision, and its `place` there: its start and trace id.

    `pending`: it waits for the judge, or may do so. `effort` is what it took.
    """

    session_id: str
    place: tuple[int, str]
    revision: int
    pending: bool = False
    effort: Effort = NO_EFFORT


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """One of a session's traces, as far as the session has to know it again; `turns` are
    those of its document, only where they were asked for."""

    trace_id: str
    started_at: int
    signals: dict[str, Evaluation]
    effort: Effort = NO_EFFORT
    turns: Sequence[Document] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as the store holds it: its traces by start, the newest of them with their answers."""

    record: SessionRecord
    traces: Sequence[StoredTrace]


@dataclass(slots=True, kw_only=True)
class Member:
    """A trace in its session: what it said, turn by turn, and what came of the signals of session scores."""

    trace_id: str
    started_at: int
    said: Sequence[SaidTurn]
    signals: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the traces of its session: start and id."""
        return self.started_at, self.trace_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """A session after one of its traces: what to store of it, and its scores."""

    record: SessionRecord
    evaluations: Sequence[Evaluation]
