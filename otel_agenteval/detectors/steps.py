"""What an agent does, step by step, whatever it was read from: spans in its own process, or a trace from the wire.

Times are nanoseconds since the Unix epoch, or of any clock that all steps of a trace share. None is "not recorded".
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from otel_agenteval.model import AgentRun, Json, ModelCall, Question, Trace, Turn
from otel_agenteval.tool_names import only_hands_over


class StepKind(StrEnum):
    """What a step is."""

    TOOL = "tool"
    MODEL = "model"
    OTHER = "other"
    """Neither, as an agent's run or a framework's node: no step, but steps may stand inside it."""


def not_recorded() -> None:
    """What a model was asked is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A span that began. Only hung spans are found by it; a stream without starts does for all else."""

    kind: StepKind
    name: str
    span_id: str
    parent_id: str | None = None
    agent: str | None = None
    at: int


# Not frozen: that would take three times as long to make.
@dataclass(slots=True, kw_only=True)
class Step:
    """A span that ended.

    `name` is the tool's or the model's. `arguments` are a tool call's, as JSON text or decoded. `result` is what the
    tool gave back, or a model's reply: its text, or what `read` gets the text out of when it is needed. `question` gets
    what the model was asked, `asked` the newest of it alone, and `sent` a fingerprint of all that it was sent but its
    own words. A failed step has an `error`, be it empty text; `is_error_read` where nothing but its result tells of it.
    `tokens` are the input and output of a model call. `agent` names whose step it is, and `run` in which of its runs,
    both the same for the tool and the model calls there: each run of an agent is looked at on its own. Where it is not
    known, `run` is None.
    """

    kind: StepKind
    name: str
    span_id: str
    agent: str | None = None
    run: AgentRun | None = None
    arguments: Json = None
    result: Json = None
    read: Callable[[Json], Json] | None = None
    asked: Callable[[], str | None] = not_recorded
    question: Callable[[], Question | None] = not_recorded
    sent: Callable[[], bytes | None] = not_recorded
    error: str | None = None
    is_error_read: bool = False
    tokens: int = 0
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def reply(self) -> Json:
        """The text that a model replied with; None where there is none."""
        return self.read(self.result) if self.read else self.result

    def follows(self, ended_at: int | None) -> bool:
        """Whether it began when something that ended at `ended_at` was over; so it is taken where a time is missing.

        Who begins a step before another one is over cannot repeat it: the outcome was not known.
        """
        return self.started_at is None or ended_at is None or self.started_at >= ended_at


def steps_of(trace: Trace) -> list[Step]:
    """The tool and model calls of a trace in the order in which they ended, without those that only hand over."""
    timed = [pair for turn in trace.turns for pair in _timed(turn)]
    return [step for _, step in sorted(timed, key=lambda pair: pair[0])]


def _timed(turn: Turn) -> list[tuple[int, Step]]:
    """The steps of a turn, each with when it ended; a call that no span tells of ended with the one before it."""
    timed = []
    at = turn.started_at
    for call in turn.tool_calls:
        at = call.ended_at if call.ended_at is not None else at
        if only_hands_over(call.name, call.arguments):
            continue
        step = Step(
            kind=StepKind.TOOL,
            name=call.name,
            span_id=call.span_id or turn.span_id,
            agent=call.agent or turn.agent,
            run=call.run,
            arguments=call.arguments,
            result=call.result,
            error=call.error,
            is_error_read=call.is_error_read,
            started_at=call.started_at,
            ended_at=call.ended_at,
        )
        timed.append((at, step))
    answering = turn.model_calls[-1] if turn.model_calls else None
    for reply in turn.model_calls:
        # Some frameworks have the model answer by a tool of theirs: it said nothing, but this is its answer.
        said = turn.output if reply is answering and reply.output is None else reply.output
        step = Step(
            kind=StepKind.MODEL,
            name=reply.model or "model",
            span_id=reply.span_id,
            agent=reply.agent or turn.agent,
            run=reply.run,
            result=said,
            asked=partial(_asked, reply),
            question=partial(_question, reply),
            sent=partial(_sent, reply),
            error=reply.error,
            tokens=reply.usage.input_tokens + reply.usage.output_tokens if reply.usage else 0,
            started_at=reply.started_at,
            ended_at=reply.ended_at,
        )
        timed.append((reply.ended_at, step))
    return timed


def _asked(call: ModelCall) -> str | None:
    return call.question.newest if call.question is not None else None


def _question(call: ModelCall) -> Question | None:
    return call.question


def _sent(call: ModelCall) -> bytes | None:
    return call.sent
