"""The model of telemetry: one `Trace`, the same for every instrumentation.

Ids are lower-case hex, times are nanoseconds since the Unix epoch (UTC). `None` always means "not recorded",
never "empty": an empty answer is `""`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple, TypeAlias

from otel_agenteval.checked import dataclass

BASELINE: Final = "baseline"
CONDITIONS: Final = (BASELINE, "fault", "structural", "prompt")
"""The conditions of a run: as it comes, with failing tools, with another structure of the input, or with the
instruction in other words."""

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the agent could have called; `parameters` is its JSON schema where one was recorded."""

    name: str
    description: str | None = None
    parameters: Json = None


class AgentRun(NamedTuple):
    """A run of an agent: everything below one span. `is_called`: another agent or a tool began it. `is_parallel`:
    another run of the agent went on beside it."""

    span_id: str
    is_called: bool = False
    is_parallel: bool = False


class ModelQuestion(NamedTuple):
    """The question to a model. `newest` is the last message that it did not write itself. `opening` is the first
    message of the conversation; None where the model has written none in it. Both are cut to the part that is
    compared."""

    newest: str
    opening: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a user's tool: requested by the model, and executed where a tool span says so.

    `arguments` are decoded JSON, or the raw text where it is not JSON. `error` is the error's text; a call that
    failed without any text has the error type, and without that `"error"`. `is_error_read`: nothing but the result
    tells of it. `is_offered`: whether the model that asked for it had a tool of this name to choose; None where no
    model call says. `agent` is the one of several that called, in its `run`.
    """

    name: str
    arguments: Json = None
    result: Json = None
    error: str | None = None
    is_error_read: bool = False
    is_offered: bool | None = None
    call_id: str | None = None
    span_id: str | None = None
    agent: str | None = None
    run: AgentRun | None = None
    started_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one model call, or of several added up. Cache is part of input, reasoning part of output."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One logical model call. `output` is the text of its reply, None where none was recorded; `finish_reason` says why
    the model ended it, in the provider's words. `agent` is the one of several that called, in its `run`. `sent` is a
    fingerprint of all that it was sent but its own words; None where that is not recorded, and where the turn has no
    earlier call with the same reply to the same newest message."""

    span_id: str
    model: str | None = None
    agent: str | None = None
    run: AgentRun | None = None
    question: ModelQuestion | None = None
    sent: bytes | None = None
    output: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    error: str | None = None
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One exchange: the user's words, the agent's steps, the agent's answer.

    `span_id` is the span that stands for the turn (its outermost agent run, else the local root): evaluation
    events are attached to it. `error` is set where that span ended in an error, or the one around it that ended with
    it, whatever was answered; and where there is no answer because a call failed. `is_cancelled`: it ended because
    whoever waited for it went away, which is no failure of the agent's. `ends_in_call`: its last output asks for a
    tool or hands the conversation over, so no answer is to be expected.
    `reasoning` and `plan` hold texts in order; both are empty where nothing was recorded.
    """

    span_id: str
    input: str | None
    output: str | None
    agent: str | None = None
    error: str | None = None
    is_cancelled: bool = False
    ends_in_call: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    reasoning: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The run of a trace, as stamped by `otel_agenteval.run()`."""

    task_id: str
    run_id: str
    condition: str = BASELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run, as a trace's spans say it. `confidence` is the agent's own, in [0, 1]. None: not said."""

    success: bool | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTool:
    """A call that a good answer makes, by ground truth. `arguments` None: any."""

    name: str
    arguments: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDigests:
    """The digests that join a trace to the one before it and the one after it.

    Each is a digest, or None where it is not known. `follows` is what the trace goes on from: it equals `said`, `reply`
    or `calls` of the trace before. `begins` is all that it was sent where it goes on from nothing. `said` is all that
    was said up to the trace's last reply, `reply` is the id of that reply, `calls` are the ids of the calls that it
    asks for.
    """

    begins: bytes | None = None
    follows: bytes | None = None
    said: bytes | None = None
    reply: bytes | None = None
    calls: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The telemetry of one trace id, read by the dialects that recognised its spans.

    `session_id` is None where nothing names a session: the trace is then its own session. `agent` is the
    outermost agent's name, `agents` all of them, each before those within it. `partial` says that content was cut on
    the way (length or count limits). `dialects` names what was recognised; empty means that no span of the
    trace is GenAI telemetry. `expected_tools` is ground truth that a span carries, None where none does.
    """

    trace_id: str
    session_id: str | None = None
    user_id: str | None = None
    service: str | None = None
    service_version: str | None = None
    service_versions: tuple[str, ...] = ()
    """Those of all services that took part."""
    environment: str | None = None
    """The `deployment.environment.name` of the resource."""
    agents: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()
    available_tools: tuple[Tool, ...] = ()
    system_instructions: str | None = None
    history: tuple[Json, ...] = ()
    """Texts and results of tools that the first model call was sent, oldest first; empty without any from before the
    trace."""
    is_history_begun: bool = False
    """True where `history` begins with the user's words, and not with the newest messages only."""
    conversation: ConversationDigests | None = None
    """None where no messages or ids of replies were recorded."""
    earlier: tuple[Turn, ...] = ()
    """The turns before it in its session, oldest first; only where they were looked up."""
    told: tuple[ToolCall, ...] = ()
    """Calls of the first turn made in earlier traces, as its first model call was told of them, oldest first."""
    told_now: int = 0
    """The number of calls at the end of `told` that no earlier model call was told of."""
    results_alone: tuple[ToolCall, ...] = ()
    """Results, by call id, that the first model call was sent without the calls, whose names are empty."""
    continues_turn: bool = False
    """True where the first turn began in an earlier trace: its first model call goes on from results of tools."""
    turn_goes_on: bool = False
    """True where the last turn goes on in a later trace: its last reply asks for tools that nothing here executed."""
    run: RunIdentity | None = None
    run_outcome: RunOutcome = RunOutcome()
    expected_tools: tuple[ExpectedTool, ...] | None = None
    partial: bool = False
    dialects: tuple[str, ...] = ()
    span_count: int = 0
    started_at: int = 0
    ended_at: int = 0
    root_span_id: str | None = None
    unread: Mapping[str, int] = field(default_factory=dict)
    """The number of values that could not be read, by a short name of what was wrong."""

    @property
    def agent(self) -> str | None:
        """The outermost agent."""
        return self.agents[0] if self.agents else None

    @property
    def input(self) -> str | None:
        """The question of the first turn."""
        return self.turns[0].input if self.turns else None

    @property
    def output(self) -> str | None:
        """The answer of the last turn."""
        return self.turns[-1].output if self.turns else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of all turns, in order."""
        return tuple(call for turn in self.turns for call in turn.tool_calls)

    @property
    def model_calls(self) -> tuple[ModelCall, ...]:
        """The model calls of all turns, in order."""
        return tuple(call for turn in self.turns for call in turn.model_calls)

    def told_of(self, calls: Sequence[ToolCall], now: int) -> "Trace":
        """Return the trace with what it was told of earlier calls, as `told_of` says."""
        told, told_now = told_of(self.turns, calls, now)
        return replace(self, told=told, told_now=told_now)

    def with_earlier_calls(self) -> "Trace":
        """Return the trace with all calls of its first turn, those of earlier traces included."""
        if not self.told or not self.turns:
            return self
        first, *others = self.turns
        return replace(self, turns=(replace(first, tool_calls=(*self.told, *first.tool_calls)), *others))


def told_of(turns: Sequence[Turn], calls: Sequence[ToolCall], now: int) -> tuple[tuple[ToolCall, ...], int]:
    """Return those of the earlier calls that the first of a trace's turns did not execute itself, and how many of them
    are among the last `now`, which no earlier model call was told of."""
    own = set[str | None]()
    for turn in turns[:1]:
        begun = min((call.started_at for call in turn.model_calls), default=0)
        executed = (each for each in turn.tool_calls if each.started_at is not None and each.started_at < begun)
        own = {each.call_id for each in executed if each.call_id}
    told = tuple(call for call in calls if call.call_id not in own)
    return told, sum(call.call_id not in own for call in calls[len(calls) - now :])
