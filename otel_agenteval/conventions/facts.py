"""The facts that a dialect reads from one span, in terms that no instrumentation owns."""

from dataclasses import dataclass, fields
from enum import Enum

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.messages import Message, ToolRequest, ToolResponse
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
    """The facts of one span; None means not recorded. Dialects fill what their span says; `agent` is read by
    `agents.agent_of`.

    On a model span `input` and `output` are the messages of the call, on an agent, workflow or chain what the span
    itself says it was asked and answered. `tool_definitions` and `instructions` stay as recorded. `answer_tools` are
    tools by which a framework has the model answer, `hands_over_to` is the agent that goes on with the conversation,
    `reasoning` what a model thought, where that stands apart from the messages. `is_report` marks a second span of a
    model call that tells of its reply. `may_be_call` marks a step that is the model call itself where no other was
    recorded within it. `is_overwritten` marks a span of the program's own that calls were written on, one over the
    other: several spans within it are the calls. `cut` says that some content was shortened on the way.
    `previous_response_id` is that of the reply which a model call goes on from.
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

    @property
    def has_content(self) -> bool:
        """True where any messages were recorded."""
        return self.input is not None or self.output is not None

    @property
    def replies(self) -> list[Message]:
        """The messages of the output."""
        return self.output.messages if self.output else []

    @property
    def requests(self) -> list[ToolRequest]:
        """The tools that the output asks for."""
        return [request for message in self.replies for request in message.requests]

    @property
    def steps(self) -> list[Message]:
        """The messages of the input since the user's last one."""
        return self.input.since_user() if self.input else []

    @property
    def step_results(self) -> list[ToolResponse]:
        """The results of the turn's tools in the input."""
        return [response for step in self.steps for response in step.responses]

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

NOTHING = SpanFacts()
"""The facts of a span that no dialect recognises."""
