"""The commit of the evaluation to the store: scored traces and everything that follows from them."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from agenteval_collector.model.agent_work import AgentWork
from agenteval_collector.model.conversation_links import ConversationLink, LinkLookUp, Move
from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.runs import RunTrace
from agenteval_collector.model.sessions import SessionUpdate
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
    """A scored trace.

    `died` is a sentence where its agent died in the middle, else None. `processes` are those with spans in it.
    `findings` are all, its loops included. `turn_of` has the number of the turn of each span that belongs to one.
    `text` is what was said in it, for searches. It counts for `agent`, `service`, `service_version` and `environment`.
    `in_session` is False for telemetry of no agent. `work` is the measured work; None where it was counted before.
    `continues_turn`: its first turn began in the trace before it. `turn_goes_on`: its last turn goes on in a later one.
    """

    trace_id: str
    session_id: str
    started_at: int
    revision: int
    view: TraceView
    offsets: Sequence[int]
    run: RunIdentity | None
    run_trace: "RunTrace | None" = None
    died: str | None = None
    processes: Sequence[str] = ()
    continues_turn: bool = False
    turn_goes_on: bool = False
    scored_at: int
    findings: Sequence[Finding] = ()
    in_session: bool = True
    turn_of: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    effort: Effort = NO_EFFORT
    work: AgentWork | None = None
    agent: str | None = None
    service: str | None = None
    service_version: str | None = None
    environment: str | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class RevisedTurn:
    """The first turn of a stored trace, or of one in the same commit, when earlier traces of the turn have changed.

    `findings` are all findings of the kinds `CROSS_TRACE_KINDS` on the turn's span, `span_id`.
    """

    trace_id: str
    session_id: str
    span_id: str
    findings: Sequence[Finding]


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class SameTrace:
    """A newer revision of a trace that says the same as the one before. The outcomes stay."""

    trace_id: str
    revision: int
    view: TraceView
    offsets: Sequence[int]
    processes: Sequence[str]


@checked_dataclass(slots=True, kw_only=True)
class Commit:
    """The results of one pass of the evaluation, stored as a whole or not at all.

    `findings` are loops that showed in traces that were kept before. `emptied` are sessions whose only trace turned
    out to belong to another session. `left` are sessions that a newer revision has left for another one.

    `links` join traces to conversations; `moves` are traces that change their session by that. Both are by trace id.
    `looked_up` are the look-ups that they rest on, where other processes may join traces, too.

    `overtaken` are traces, each with its session, that came after later traces of it: their last turns may go on there.
    `revised_turns` are the first turns of those later traces whose findings have changed by that.

    `judgements` are those whose outcomes are among the evaluations. They were paid for, so a commit with any of them is
    on disk when it returns.
    """

    traces: list[ScoredTrace] = field(default_factory=list)
    same: list[SameTrace] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    sessions: dict[str, SessionUpdate] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
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
        return self.left.union(*((each.left, each.joined) for each in self.moves.values()))

    @property
    def joins(self) -> bool:
        """True where traces were looked for among conversations that other processes may change meanwhile.

        A look-up that gave False only said that all traces of a service name their sessions: nothing rests on it.
        """
        return any(each.gave is not False for each in self.looked_up)

    def add(self, update: SessionUpdate) -> None:
        """Add the newest state of a session, in place of an earlier one of this pass."""
        self.sessions[update.state.session_id] = update
