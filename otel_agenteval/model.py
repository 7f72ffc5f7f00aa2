"""The model of telemetry: a `Trace` has the same form for every instrumentation.

Ids are lower-case hex, times are nanoseconds since the Unix epoch (UTC). `None` means "not recorded", never "empty": an
empty answer is `""`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from otel_agenteval.internal.checked import checked_dataclass

BASELINE: Final = "baseline"
CONDITIONS: Final = (BASELINE, "fault", "structural", "prompt")
"""The conditions of a run: as it comes, with failing tools, with another structure of the input, or with the
instruction in other words."""

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the agent could call. `parameters` is its JSON schema, if one was recorded."""

    name: str
    description: str | None = None
    parameters: Json = None


class AgentRun(NamedTuple):
    """One execution of an agent within a trace: everything below one span.

    `is_called` says that another agent or a tool began it, `is_tool` that it was a tool, and `is_parallel` that the
    agent had another agent run beside it.
    """

    span_id: str
    is_called: bool = False
    is_parallel: bool = False
    is_tool: bool = False


class ModelQuestion(NamedTuple):
    """The question to a model: `newest` is the last message that the model did not write itself.

    `opening` is the first message of the conversation, None if the model has not written in it yet. Both are cut to the
    part that is compared. `is_users` says that `newest` are words of the user, and not the result of a tool.
    """

    newest: str
    opening: str | None = None
    is_users: bool = False


class CallOutcome(StrEnum):
    """What came of a call."""

    WORKED = "worked"
    FAILED = "failed"
    VERDICT = "verdict"
    """The exit code is not zero, but may be the answer: of `grep`, `diff`, `test`, a linter, a test run."""
    NOTHING = "nothing"
    """It worked, and found nothing."""
    REFUSED = "refused"
    """A policy, a guardrail or a person did not let it happen."""
    CANCELLED = "cancelled"
    WAITING = "waiting"
    """It goes on, or waits for somebody."""
    UNKNOWN = "unknown"
    """Nothing of it was recorded."""


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool: the model requested it, and it was executed if a tool span says so.

    `arguments` are decoded JSON, or the raw text if that is no JSON. `outcome` is what came of the call, and `told_by`
    says what tells so: its span, a field of its result, words. `error` is the error's text, else the error's type, else
    `"error"`; None unless the call failed. `error_type` is the type of the exception. `is_error_read`: only the result
    tells of the error. `is_offered` says whether the model had a tool of this name to choose, None if no model
    call says so. `asked_by` is the span of the model call whose reply asks for it, None if no such reply was recorded.
    `agent` and `agent_run` say who called, if a trace has several agents.
    """

    name: str
    arguments: Json = None
    result: Json = None
    error: str | None = None
    error_type: str | None = None
    outcome: CallOutcome = CallOutcome.UNKNOWN
    told_by: str | None = None
    is_error_read: bool = False
    is_offered: bool | None = None
    asked_by: str | None = None
    call_id: str | None = None
    span_id: str | None = None
    agent: str | None = None
    agent_run: AgentRun | None = None
    started_at: int | None = None
    ended_at: int | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one model call. None: not recorded, or an impossible number.

    `input_tokens` is everything that was sent. `cache_read_tokens` of it came from the provider's cache, and
    `cache_write_tokens` went into it. `output_tokens` is everything that came back, with `reasoning_tokens` in it.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    other: Mapping[str, int] = field(default_factory=dict)
    """Tokens of other modalities than text, which are in the input and output too: by `input_audio`, `output_audio`,
    `input_image`, `cache_audio_read`. Of the cache's tokens, `cache_write_1h`: those that are kept for an hour."""
    is_partial: bool = False
    """True if the span stands for several calls of the model and tells the tokens of one."""

    @property
    def fresh_input_tokens(self) -> int | None:
        """What was sent and neither came from the cache nor went into it."""
        if self.input_tokens is None:
            return None
        return max(0, self.input_tokens - (self.cache_read_tokens or 0) - (self.cache_write_tokens or 0))

    @property
    def total(self) -> int:
        """The tokens that are known to have been sent and to have come back."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One logical model call.

    `provider` is the name of who runs the model, `billed_usd` what the emitter says that the call cost (US dollars).
    `output` is the text of the reply, None if none was recorded. `finish_reason` says why the reply ended, in the
    provider's words. `agent` and `agent_run` say who called, if a trace has several agents. `sent` is a fingerprint
    of everything that the model was sent, without its own words. It is compared with earlier calls of the turn that
    have the same reply to the same newest message. It is None if there is no such call, or if nothing was recorded.
    """

    span_id: str
    model: str | None = None
    agent: str | None = None
    agent_run: AgentRun | None = None
    question: ModelQuestion | None = None
    sent: bytes | None = None
    output: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    provider: str | None = None
    billed_usd: float | None = None
    error: str | None = None
    error_type: str | None = None
    started_at: int
    ended_at: int


class FailedStep(NamedTuple):
    """A failed span of a turn that did not fail: no model call, tool call or agent run. `turn` is an index."""

    span_id: str
    name: str
    error: str
    turn: int


class UnknownSpans(NamedTuple):
    """Spans of one instrumentation scope that no dialect knows, though their attributes look like facts of an agent.

    `looks_like` names these facts: input, output, session, usage, model, tool.
    """

    scope: str
    spans: int
    looks_like: tuple[str, ...]


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One exchange: the user's words, the agent's steps, the agent's answer.

    `span_id` is the span of the turn: its outermost agent run, else the local root. Evaluation events are attached to
    it. `error` is set, whatever was answered, if this span failed, or a span around it that ended at the same time. It
    is also set if there is no answer because a call failed.

    `is_cancelled` says that the caller went away before the answer, which is no failure of the agent. `ends_in_call`
    says that the last output asks for a tool or hands the conversation over, so that no answer is to be expected.
    `reasoning` and `plan` hold texts in order; both are empty if nothing was recorded. `handovers` are the calls by
    which one agent hands over to another one. They are none of the user's `tool_calls`.
    """

    span_id: str
    input: str | None
    output: str | None
    agent: str | None = None
    error: str | None = None
    is_cancelled: bool = False
    ends_in_call: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    handovers: tuple[ToolCall, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    reasoning: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    is_orphan: bool = False
    """True if it is no turn, but holds tool calls whose spans came in a trace of their own, without the agent's."""
    started_at: int
    ended_at: int


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class CertainFact:
    """A fact that the telemetry of a trace shows for certain, such as a failed call or a loop.

    `kind` is the kind of finding. `turn` counts from 0, None if the fact is about the whole trace. `span_id` is the
    span that shows it.
    """

    kind: str
    reason: str
    turn: int | None = None
    span_id: str | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The run that a trace belongs to, as `otel_agenteval.run()` writes it on spans."""

    task_id: str
    run_id: str
    condition: str = BASELINE


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run, as the spans of a trace say it. None means that they do not say.

    `confidence` is the agent's own, in [0, 1].
    """

    success: bool | None = None
    confidence: float | None = None


MAX_EXPECTED_ANSWER: Final = 10_000
"""Characters of an expected answer that count."""


class GroundTruth(NamedTuple):
    """The calls that a good answer makes, and the text that it is or contains. None: not said."""

    tools: "tuple[ExpectedTool, ...] | None" = None
    answer: str | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTool:
    """A call that a good answer makes, by ground truth. If `arguments` is None, any arguments are right."""

    name: str
    arguments: Mapping[str, Json] | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDigests:
    """The digests that join a trace to the one before it and to the one after it. None means not known.

    - `follows` equals `said`, `reply` or `calls` of the trace that this one continues.
    - `begins` is the digest of all messages to the first model call, in a trace that continues none.
    - `said` is the digest of all that was said up to the last reply of the trace.
    - `reply` is the digest of the last reply's id, `calls` of the ids of the calls that this reply asks for.
    """

    begins: bytes | None = None
    follows: bytes | None = None
    said: bytes | None = None
    reply: bytes | None = None
    calls: bytes | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The telemetry of one trace id, read by the dialects that recognised its spans.

    `session_id` is None if nothing names a session. `agents` are the names of all agents, each before the agents that
    it calls; `agent` is the outermost one. `partial` says that content was cut on the way, by limits of length or
    count. `dialects` names the dialects of its spans; if it is empty, no span is GenAI telemetry. `expected_tools` and
    `expected_answer` are ground truth that a span carries, None if none does.
    """

    trace_id: str
    session_id: str | None = None
    user_id: str | None = None
    service: str | None = None
    service_version: str | None = None
    """Of its outermost agent: as its span says, else as its service does."""
    service_versions: tuple[str, ...] = ()
    """The versions of all services that took part."""
    environment: str | None = None
    """The `deployment.environment.name` of the resource."""
    agents: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()
    embeddings: tuple[ModelCall, ...] = ()
    """The calls of embedding models. They are in no turn."""
    failed_steps: tuple[FailedStep, ...] = ()
    unknown_spans: tuple[UnknownSpans, ...] = ()
    available_tools: tuple[Tool, ...] = ()
    system_instructions: str | None = None
    fingerprint: str | None = None
    """Of the instructions and tools of its first agent, where nobody says a version; None if neither was recorded."""
    history: tuple[Json, ...] = ()
    """Texts and tool results from before the trace that its first model call was sent, oldest first."""
    is_history_begun: bool = False
    """True if `history` begins with the first words of the user; False if it may hold the newest messages only."""
    conversation: ConversationDigests | None = None
    """None if neither messages nor ids of replies were recorded."""
    earlier: tuple[Turn, ...] = ()
    """The turns before the trace in its session, oldest first. Empty unless they were looked up."""
    observations: tuple[CertainFact, ...] = ()
    """The facts that were found in the trace. Empty unless they were looked up."""
    told: tuple[ToolCall, ...] = ()
    """Calls of the first turn that earlier traces made, as the trace's first model call was told of them.

    The oldest is first.
    """
    told_now: int = 0
    """The number of calls at the end of `told` that no earlier model call was told of."""
    results_alone: tuple[ToolCall, ...] = ()
    """Results that the first model call was sent without their calls. They have call ids, and empty names."""
    continues_turn: bool = False
    """True if the first turn began in an earlier trace: its first model call was sent results of tools."""
    turn_goes_on: bool = False
    """True if the last turn continues in a later trace: its last reply asks for tools that nothing here executed."""
    run: RunIdentity | None = None
    run_outcome: RunOutcome = RunOutcome()
    expected_tools: tuple[ExpectedTool, ...] | None = None
    expected_answer: str | None = None
    partial: bool = False
    dialects: tuple[str, ...] = ()
    span_count: int = 0
    started_at: int = 0
    ended_at: int = 0
    root_span_id: str | None = None
    content_at: str | None = None
    """Where the messages were uploaded to, if spans tell that and have none of their own."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """The number of values that could not be read, by a short name of the reason."""

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

    @property
    def has_turns(self) -> bool:
        """True if an agent or a model did anything in it."""
        return any(not turn.is_orphan for turn in self.turns)

    def told_of(self, calls: Sequence[ToolCall], now: int) -> "Trace":
        """Return the trace with `told` and `told_now` set, as the function `told_of` computes them."""
        answered, told_now = told_of(self.turns, calls, now)
        return replace(self, told=answered, told_now=told_now)

    def with_earlier_calls(self) -> "Trace":
        """Return the trace with all calls of its first turn, those of earlier traces included."""
        if not self.told or not self.turns:
            return self
        first, *others = self.turns
        return replace(self, turns=(replace(first, tool_calls=(*self.told, *first.tool_calls)), *others))


def told_of(turns: Sequence[Turn], calls: Sequence[ToolCall], now: int) -> tuple[tuple[ToolCall, ...], int]:
    """Return the earlier calls that a trace was told of, and how many of them are new.

    `calls` are all calls that its first model call was sent. Calls that the first turn executed itself are left out.
    The last `now` of `calls` are new: no earlier model call was told of them.
    """
    if not calls:
        return (), 0
    own = set[str | None]()
    # Only calls before the first model call can be among those it was sent.
    for turn in turns[:1]:
        begun = min((call.started_at for call in turn.model_calls), default=0)
        executed = (call for call in turn.tool_calls if call.started_at is not None and call.started_at < begun)
        own = {call.call_id for call in executed if call.call_id}
    answered = tuple(call for call in calls if call.call_id not in own)
    return answered, sum(call.call_id not in own for call in calls[len(calls) - now :])
