"""The commit of the evaluation to the store: scored traces and everything that follows from them."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from agenteval_collector.model.agent_work import AgentWork
from agenteval_collector.model.conversation_links import ConversationLink, LinkLookUp, LinkQuery, Move
from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.runs import RunTrace
from agenteval_collector.model.sessions import SessionUpdate, StoredPlace
from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.finding import Finding, FindingKind
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import RunIdentity
from otel_agenteval.outcome import Evaluation

CROSS_TRACE_KINDS = frozenset({*LoopKind, FindingKind.TOOL_FAILED} - {LoopKind.HUNG_SPAN})
"""Kinds of findings that may rest on calls of earlier traces. They stand on the span of the turn."""


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTrace:
    """A scored trace: its view, and what the store keeps beside that.

    `processes` are those with spans in it. `findings` are all, its loops included. `turn_of` has the number of the turn
    of each span that belongs to one. `text` is what was said in it, for searches. It counts for `agent`, `service`,
    `service_version` and `environment`. `in_session` is False for telemetry of no agent. `work` is the measured work;
    None if it was counted before.
    """

    view: TraceView
    offsets: Sequence[int]
    processes: Sequence[str] = ()
    run: RunIdentity | None = None
    run_trace: RunTrace | None = None
    findings: Sequence[Finding] = ()
    turn_of: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    effort: Effort = NO_EFFORT
    work: AgentWork | None = None
    in_session: bool = True
    agent: str | None = None
    service: str | None = None
    service_version: str | None = None
    environment: str | None = None
    scored_at: int = 0

    @property
    def trace_id(self) -> str:
        return self.view.trace_id

    @property
    def session_id(self) -> str:
        return self.view.session_id

    @property
    def started_at(self) -> int:
        return self.view.started_at

    @property
    def revision(self) -> int:
        return self.view.revision

    @property
    def continues_turn(self) -> bool:
        """True if its first turn began in the trace before it."""
        return self.view.continues_turn

    @property
    def turn_goes_on(self) -> bool:
        """True if its last turn goes on in a later trace."""
        return self.view.turn_goes_on

    @property
    def died(self) -> str | None:
        """A sentence if its agent died in the middle, else None."""
        return self.view.status_reason


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class RevisedTurn:
    """The first turn of a stored trace, or of one in the same commit, when earlier traces of the turn have changed.

    `findings` are all findings of the kinds `CROSS_TRACE_KINDS` on the turn's span, `span_id`.
    """

    trace_id: str
    session_id: str
    span_id: str
    findings: Sequence[Finding]


@checked_dataclass(slots=True, kw_only=True)
class Commit:
    """The results of one pass of the evaluation, stored as a whole or not at all.

    `same` are newer revisions that say the same as the ones before: of these only the view, the requests and the
    processes are stored, and the outcomes stay.

    `findings` are loops that showed in traces that were kept before. `emptied` are sessions whose only trace turned out
    to belong to another session. `left` are places of traces that a newer revision has left for another session.

    `links` join traces to conversations; `moves` are traces that change their session by that. Both are by trace id.
    `looked_up` are the look-ups that they rest on, if other processes may join traces, too.

    `overtaken` are traces, each with its session, that came after later traces of it: their last turns may go on there.
    `revised_turns` are the first turns of those later traces whose findings have changed by that.

    `judgements` are those whose outcomes are among the evaluations. They were paid for, so a commit with any of them is
    on disk when it returns.
    """

    traces: list[ScoredTrace] = field(default_factory=list)
    same: list[ScoredTrace] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    sessions: dict[str, SessionUpdate] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    left: list[StoredPlace] = field(default_factory=list)
    links: dict[str, ConversationLink] = field(default_factory=dict)
    moves: dict[str, Move] = field(default_factory=dict)
    looked_up: list[LinkLookUp] = field(default_factory=list)
    overtaken: list[tuple[str, str]] = field(default_factory=list)
    revised_turns: list[RevisedTurn] = field(default_factory=list)
    judgements: list["Judgement"] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def unsettled(self) -> set[str]:
        """The sessions that traces move out of or into with this commit: their traces have to be added up again."""
        session_ids = {session.session_id for session in self.left}
        return session_ids.union(*((move.left, move.joined) for move in self.moves.values()))

    @property
    def joins(self) -> bool:
        """True if traces were looked for among conversations that other processes may change meanwhile.

        If all traces of a service name their sessions, nothing rests on that.
        """
        return any(lookup.query is not LinkQuery.UNNAMED or lookup.found for lookup in self.looked_up)

    def add(self, update: SessionUpdate) -> None:
        """Add the newest state of a session, in place of an earlier one of this pass."""
        self.sessions[update.state.session_id] = update
