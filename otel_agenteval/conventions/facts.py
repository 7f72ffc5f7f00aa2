"""The facts that a dialect reads from one span, in terms that no instrumentation owns."""

from dataclasses import dataclass, fields
from enum import Enum

from otel_agenteval.conventions.messages import Content
from otel_agenteval.model import Json, Usage


class Role(Enum):
    """The part a span plays in a turn."""

    AGENT = "agent"
    """A run of one agent."""
    WORKFLOW = "workflow"
    """A run that groups several agents' runs."""
    CHAIN = "chain"
    """A step of a framework; stands for a run only if it carries what was asked and what was answered."""
    MODEL = "model"
    TOOL = "tool"
    PLAN = "plan"
    RETRIEVAL = "retrieval"


@dataclass(slots=True, kw_only=True)
class SpanFacts:
    """The facts of one span; None means not recorded. Dialects fill what their span says, and nothing else.

    `agent` is not the dialects' to fill: `agents.agent_of` reads it by their keys, here and beside the agent.

    On a model span `input` and `output` are the messages of the call. On an agent, workflow or chain they are what
    the span itself says it was asked and answered. `tool_definitions` and `instructions` stay as recorded, since the
    same text repeats on every model span of a trace. `answer_tools` are tools by which a framework has the model
    answer in a structure, none of the user's. `hands_over_to` is the agent that a framework says goes on with the
    conversation. `reasoning` is what a model thought, where that stands apart from the messages. `is_report` marks a
    model span that only tells of the reply to a call whose own span ended before it was known. `may_be_call` marks a
    step that says what a model was sent: it is the model call itself where no other was recorded within it.
    `is_overwritten` marks a span of the program's own that a library wrote its calls on, one over the other: where
    several were recorded within it, they are the calls. `cut` says
    that some content was shortened on the way. `previous_response_id` is that of the reply which a model call goes on
    from, where the service keeps the conversation.
    """

    role: Role | None = None
    agent: str | None = None
    input: Content | None = None
    output: Content | None = None
    instructions: Json = None
    tool_definitions: Json = None
    tool_names: tuple[str, ...] | None = None
    answer_tools: tuple[str, ...] | None = None
    tool: str | None = None
    call_id: str | None = None
    arguments: Json = None
    """Decoded (`decode_arguments`), not as the text that was recorded."""
    result: Json = None
    error: str | None = None
    hands_over_to: str | None = None
    model: str | None = None
    response_id: str | None = None
    previous_response_id: str | None = None
    finish_reasons: tuple[str, ...] | None = None
    usage: Usage | None = None
    reasoning: str | None = None
    is_report: bool = False
    may_be_call: bool = False
    is_overwritten: bool = False
    cut: bool = False

    def complete_with(self, other: "SpanFacts") -> None:
        """Take from `other` what is not known here: two vocabularies on a span, two spans for one call."""
        for name in _OPTIONAL:
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))
        self.is_report = self.is_report or other.is_report
        self.may_be_call = self.may_be_call or other.may_be_call
        self.is_overwritten = self.is_overwritten or other.is_overwritten
        self.cut = self.cut or other.cut


_OPTIONAL = tuple(field.name for field in fields(SpanFacts) if field.type is not bool)
