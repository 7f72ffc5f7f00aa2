"""One commit of the evaluation to the store: scored traces and all that follows from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenteval_collector.model.documents import Document
from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.judging import (
    Judgement,
)
from agenteval_collector.model.links import Link, Move
from agenteval_collector.model.runs import RunTrace
from agenteval_collector.model.sessions import (
    SessionUpdate,
)
from otel_agenteval.finding import Finding
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """A scored trace.

    `died` says that its agent died in the middle, None where it did not. `processes` are those that it has spans of.
    `findings` is all that was observed in it, its loops included, `turn_of` the number of the turn of each span that
    belongs to one, `text` what was said in it, to be searched. `agent`, `service` and `service_version` are those that
    it counts for, `in_session` is False for telemetry of no agent.
    `continues_turn`: its first turn began in the trace before it.
    """

    trace_id: str
    session_id: str
    started_at: int
    revision: int
    document: Document
    offsets: Sequence[int]
    run: RunIdentity | None
    run_trace: "RunTrace | None" = None
    died: str | None = None
    processes: Sequence[str] = ()
    continues_turn: bool = False
    scored_at: int
    findings: Sequence[Finding] = ()
    in_session: bool = True
    turn_of: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    effort: Effort = NO_EFFORT
    agent: str | None = None
    service: str | None = None
    service_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTrace:
    """A newer revision of a trace that says the same as the one before: its outcomes stand, and its document but for
    the fields in `revised`."""

    trace_id: str
    revision: int
    revised: Document
    offsets: Sequence[int]
    processes: Sequence[str]


@dataclass(slots=True, kw_only=True)
class Commit:
    """Everything that one pass of the evaluation found, to be kept together or not at all.

    `findings` are loops that showed in traces that were kept before. `emptied` are sessions whose only trace turned
    out to belong to another session. `links` join traces to conversations, `moves` are traces that are in other
    sessions by that, both by trace id. `judgements` are those whose outcomes are among the evaluations: what they cost
    is not found again for nothing, so with any of them all is on disk when it is committed.
    """

    traces: list[TraceRecord] = field(default_factory=list)
    same: list[SameTrace] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    sessions: dict[str, SessionUpdate] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    links: dict[str, Link] = field(default_factory=dict)
    moves: dict[str, Move] = field(default_factory=dict)
    judgements: list["Judgement"] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, update: SessionUpdate) -> None:
        """Keep a session as it is now, instead of as it was earlier in this pass."""
        self.sessions[update.record.session_id] = update
