"""The steps of an agent, read from spans in its own process or from a complete trace.

Times are nanoseconds of any clock that all steps of a trace share. None means "not recorded".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from otel_agenteval.model import AgentRun, CallOutcome, Json, ModelCall, ModelQuestion, ToolCall, Trace, Turn


class StepKind(StrEnum):
    """The kind of a step."""

    TOOL = "tool"
    MODEL = "model"
    OTHER = "other"
    """Neither, such as an agent run. It is no step, but steps may be inside it."""


def not_recorded() -> None:
    """Return None, in the place of a question to a model that was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A span that began. Only hung spans are found by starts, all other loops by ends."""

    kind: StepKind
    name: str
    span_id: str
    parent_id: str | None = None
    agent: str | None = None
    at: int


# Not frozen, because a frozen one takes three times as long to make.
@dataclass(slots=True, kw_only=True)
class Step:
    """A span that ended.

    `name` is the name of the tool or the model. `arguments` are those of a tool call, as JSON text or decoded. `result`
    is the tool's result, or the model's reply: its text, or a value from which `read` gets the text.

    Three functions read what the model was asked, once it is needed: `question` all of it, `asked` the newest message,
    `sent` a fingerprint of all that the model was sent, without its own words.

    `requests` is the number of tools that a model's reply asks for, 0 if that is not known. `asked_by` is the model
    call whose reply asks for a tool call, None if that is not known.

    A failed step has an `error`, which may be empty. `is_error_read` says that only the result tells of it. `outcome`
    says what came of a tool call that did not fail. `agent` and `agent_run` say whose step it is, None if that is
    not known.
    """

    kind: StepKind
    name: str
    span_id: str
    agent: str | None = None
    agent_run: AgentRun | None = None
    arguments: Json = None
    result: Json = None
    read: Callable[[Json], Json] | None = None
    asked: Callable[[], str | None] = not_recorded
    question: Callable[[], ModelQuestion | None] = not_recorded
    sent: Callable[[], bytes | None] = not_recorded
    requests: int = 0
    asked_by: str | None = None
    error: str | None = None
    is_error_read: bool = False
    outcome: CallOutcome = CallOutcome.UNKNOWN
    tokens: int = 0
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def reply(self) -> Json:
        """The text of a model's reply; None if there is none."""
        return self.read(self.result) if self.read else self.result

    def follows(self, ended_at: int | None, asked_by: str | None = None) -> bool:
        """Return whether the agent could know the outcome of a step that ended then, and that this model call asked
        for.

        It could not if this step began before that end, or if the same reply asks for both. A missing time does not
        count.
        """
        if asked_by is not None and asked_by == self.asked_by:
            return False
        return self.started_at is None or ended_at is None or self.started_at >= ended_at


def steps_of(trace: Trace) -> list[Step]:
    """Return the tool and model calls of a trace in the order in which they ended."""
    timed = (pair for turn in trace.turns for pair in _timed(turn))
    return [step for _, step in sorted(timed, key=lambda pair: pair[0])]


def _timed(turn: Turn) -> Iterator[tuple[int, Step]]:
    """Yield the steps of a turn, each with the time of its end. A call without a span counts as ended with the one
    before it, or with the reply that asks for it if that is later."""
    for reply in turn.model_calls:
        # Some frameworks have the model answer by a tool of theirs. Then the model said nothing, and the turn's output
        # is its answer.
        output = turn.output if reply is turn.model_calls[-1] and reply.output is None else reply.output
        yield reply.ended_at, _model_step(reply, output, turn)
    asked_at = {reply.span_id: reply.ended_at for reply in turn.model_calls}
    at = turn.started_at
    for call in turn.tool_calls:
        at = call.ended_at if call.ended_at is not None else max(at, asked_at.get(call.asked_by or "", at))
        yield at, _tool_step(call, turn)
    for call in turn.handovers:
        at = call.ended_at if call.ended_at is not None else asked_at.get(call.asked_by or "", turn.started_at)
        yield at, _tool_step(call, turn)


def _tool_step(call: ToolCall, turn: Turn) -> Step:
    return Step(
        kind=StepKind.TOOL,
        name=call.name,
        span_id=call.span_id or turn.span_id,
        agent=call.agent or turn.agent,
        agent_run=call.agent_run,
        arguments=call.arguments,
        result=call.result,
        asked_by=call.asked_by,
        error=call.error,
        is_error_read=call.is_error_read,
        outcome=call.outcome,
        started_at=call.started_at,
        ended_at=call.ended_at,
    )


def _model_step(call: ModelCall, output: str | None, turn: Turn) -> Step:
    return Step(
        kind=StepKind.MODEL,
        name=call.model or "model",
        span_id=call.span_id,
        agent=call.agent or turn.agent,
        agent_run=call.agent_run,
        result=output,
        asked=lambda: call.question.newest if call.question is not None else None,
        question=lambda: call.question,
        sent=lambda: call.sent,
        error=call.error,
        tokens=call.usage.total if call.usage else 0,
        started_at=call.started_at,
        ended_at=call.ended_at,
    )
