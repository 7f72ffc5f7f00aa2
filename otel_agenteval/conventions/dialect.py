"""The contract of a dialect: one vocabulary of attributes, in one module of `dialects/`, and the facts that it reads
from one span, in terms that no instrumentation owns.

Two methods serve those who read whole spans; the names of its attributes those who look at one span beside the agent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.messages import ChatMessage, ToolRequest, ToolResponse
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import Json, Usage


class SpanRole(Enum):
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

    role: SpanRole | None = None
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
    finish_reason: str | None = None
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
    def replies(self) -> list[ChatMessage]:
        """The messages of the output."""
        return self.output.messages if self.output else []

    @property
    def requests(self) -> list[ToolRequest]:
        """The tools that the output asks for."""
        return [request for message in self.replies for request in message.requests]

    @property
    def steps(self) -> list[ChatMessage]:
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


Attributes = Mapping[str, Any]


def nobody(name: str, scope: str) -> str | None:
    """Name no agent, whatever the name of a span and its instrumentation scope."""
    return None


class KindAttribute(NamedTuple):
    """An attribute whose value says which part a span plays."""

    key: str
    roles: Mapping[str, SpanRole | None]
    agents: tuple[str, ...] = ()
    """Attributes that name the agent on the span of its run."""
    agent_in: Callable[[str, str], str | None] = nobody
    """Reads the agent from the name of the span of its run and from its instrumentation scope."""

    def role(self, attributes: Attributes) -> SpanRole | None:
        """Return the part that a span plays; None where the attribute says none that is known."""
        value = attributes.get(self.key)
        return self.roles.get(value) if isinstance(value, str) else None


class IndexedMessages(NamedTuple):
    """Messages that are flattened into attributes: `{prefix}0{infix}role`, `{prefix}0{infix}content` and so on."""

    prefix: str
    infix: str
    contents: tuple[str, ...] = ("content",)
    """Names of the fields that hold the text of a message, the first before the others."""

    def field(self, index: int | str, name: str) -> str:
        """Return the attribute of a field of the message at `index`."""
        return f"{self.prefix}{index}{self.infix}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeKeys:
    """The attributes of a dialect by what they hold, for readers of single spans; the first outranks the others."""

    kinds: tuple[KindAttribute, ...] = ()
    marks: tuple[tuple[str, SpanRole], ...] = ()
    """Attributes that only spans of one role have, where no kind is recorded."""

    agents: tuple[str, ...] = ()
    """The agent's name, on spans of any kind."""
    no_agents: tuple[str, ...] = ()
    """Names of agents that are nobody's."""
    agent_of: tuple[Callable[[str, Attributes], str | None], ...] = ()
    """Read the agent from a span's name and attributes, where no attribute of its own names it."""
    is_run: tuple[Callable[[str, Attributes], bool], ...] = ()
    """Tell by a span's name and attributes whether it stands for a run of an agent, where no kind is recorded."""

    tools: tuple[str, ...] = ()
    """The name of a tool that was executed; else the name of the span is."""
    tool_suffixes: tuple[str, ...] = ()
    """Ends of span names that are no part of the tool's."""
    steering_tools: tuple[str, ...] = ()
    """Names of tools by which a framework steers itself: none of the user's."""
    steering_prefixes: tuple[str, ...] = ()
    """Beginnings of such names."""
    arguments: tuple[str, ...] = ()
    argument_events: tuple[tuple[str, str], ...] = ()
    """Events that tell them, each with the name of the attribute in it."""
    results: tuple[str, ...] = ()
    answer_events: tuple[tuple[str, str], ...] = ()
    """Events that tell a tool's result or a model's reply, each with the name of the attribute in it."""

    models: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    """JSON text of the messages that a model was sent."""
    indexed_messages: tuple[IndexedMessages, ...] = ()
    reply_texts: tuple[str, ...] = ()
    """The text of a model's reply, and nothing else."""
    replies: tuple[str, ...] = ()
    """A model's reply in any structure."""
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    """An object that counts tokens."""

    sessions: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


def merged(keys: Iterable[AttributeKeys]) -> AttributeKeys:
    """Join the keys of several dialects, in their order."""
    listed = list(keys)
    joined = {each.name: sum((getattr(own, each.name) for own in listed), ()) for each in fields(AttributeKeys)}
    return AttributeKeys(**joined)


class Dialect(ABC):
    """One vocabulary of attributes: stateless, and never raising, whatever a span holds."""

    name: ClassVar[str]
    """Lower snake case, as listed in `Trace.dialects`."""
    content_switch: ClassVar[str | None] = None
    """Advice where its spans lack content, in a clause: "set X=true in the agent"; None where there is no switch."""
    rank: ClassVar[int] = 1000
    """Each fact is taken from the lowest rank that knows it. Dialects that correct the GenAI conventions are below
    50."""
    is_common: ClassVar[bool] = False
    """True where vendors' dialects stand beside it: its keys are asked before theirs, its `content_switch` after
    theirs."""
    keys: ClassVar[AttributeKeys] = AttributeKeys()
    marks: ClassVar[frozenset[str]] = frozenset()
    """Attributes that only spans of this dialect have."""

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        """Return whether the span, or a log record that names it, speaks this dialect: by its marks, unless the dialect
        tells otherwise. Asked of all, it must be cheap."""
        return not self.marks.isdisjoint(span.attributes)

    @abstractmethod
    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        """Return the facts of a recognised span and of the log records that name it."""
