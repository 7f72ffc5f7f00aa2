"""The contract of a dialect, and the facts that it reads from a span in terms that no instrumentation owns.

A dialect is one vocabulary of attributes, in one module of `dialects/`. Its methods serve readers of whole spans. Its
`keys` serve readers in the agent's process, which look up a few attributes of one span.
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
    """The part that a span plays in a turn."""

    AGENT = "agent"
    """A run of one agent."""
    WORKFLOW = "workflow"
    """A run that groups several agents' runs."""
    CHAIN = "chain"
    """A step of a framework. It stands for a run only if it carries a question and an answer."""
    MODEL = "model"
    TOOL = "tool"
    PLAN = "plan"
    RETRIEVAL = "retrieval"


@dataclass(slots=True, kw_only=True)
class SpanFacts:
    """The facts of one span, as its dialects read them. None means not recorded."""

    role: SpanRole | None = None
    agent: str | None = None
    """Filled in by `agents.agent_of`, not by dialects."""
    input: Content | None = None
    """The messages that a model was sent. On an agent, workflow or chain: the question, if the span itself says
    it."""
    output: Content | None = None
    """The messages of a model's reply. On an agent, workflow or chain: the answer, if the span itself says it."""
    instructions: Json = None
    """System instructions, as they were recorded."""
    tool_definitions: Json = None
    """Definitions of the tools that a model was offered, as they were recorded."""
    tool_names: tuple[str, ...] | None = None
    """Names of the tools that an agent has."""
    answer_tools: tuple[str, ...] | None = None
    """Tools by which a framework has the model answer."""
    tool: str | None = None
    call_id: str | None = None
    arguments: Json = None
    """Decoded by `decode_arguments`."""
    result: Json = None
    error: str | None = None
    """An error that attributes or events tell of, beside the span's status."""
    is_success: bool | None = None
    """True if the emitter says that a call worked, whatever was recorded of its result."""
    hands_over_to: str | None = None
    """The agent that goes on with the conversation."""
    model: str | None = None
    response_id: str | None = None
    previous_response_id: str | None = None
    """The id of the reply that a model call goes on from."""
    finish_reason: str | None = None
    usage: Usage | None = None
    reasoning: str | None = None
    """The thoughts of a model, if they were recorded apart from the messages."""
    is_sent: bool = False
    """True for a tool call on its way to a server. The server's name of the tool may lack a prefix that the agent's
    has."""
    is_report: bool = False
    """True for a second span of a model call, which tells of its reply."""
    may_be_call: bool = False
    """True for a step that is the model call itself, unless another model call was recorded within it."""
    is_overwritten: bool = False
    """True for a span of the program on which model calls were written, each over the one before. If several spans
    within it are model calls, those count."""
    cut: bool = False
    """True if some content was shortened on the way."""

    @property
    def has_content(self) -> bool:
        """True if any messages were recorded."""
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
        """Take from `other` what is not known here. Used for two dialects on a span, and for two spans of one call."""
        for name in _OPTIONAL:
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))
        self.is_sent = self.is_sent or other.is_sent
        self.is_report = self.is_report or other.is_report
        self.may_be_call = self.may_be_call or other.may_be_call
        self.is_overwritten = self.is_overwritten or other.is_overwritten
        self.cut = self.cut or other.cut


_OPTIONAL = tuple(field.name for field in fields(SpanFacts) if field.type is not bool)

NOTHING = SpanFacts()
"""The facts of a span that no dialect recognises."""

Attributes = Mapping[str, Any]


def nobody(name: str, scope: str) -> str | None:
    """Return None: the name of a span and its instrumentation scope name no agent."""
    return None


class KindAttribute(NamedTuple):
    """An attribute whose value says which role a span has."""

    key: str
    roles: Mapping[str, SpanRole | None]
    agents: tuple[str, ...] = ()
    """Attributes that name the agent, on the span of its run."""
    agent_in: Callable[[str, str], str | None] = nobody
    """Reads the agent from the name of the span of its run and from its instrumentation scope."""

    def role(self, attributes: Attributes) -> SpanRole | None:
        """Return the role of a span; None if the attribute is missing or its value is not known."""
        value = attributes.get(self.key)
        return self.roles.get(value) if isinstance(value, str) else None


class IndexedMessages(NamedTuple):
    """Messages that are spread over attributes: `{prefix}0{infix}role`, `{prefix}0{infix}content` and so on."""

    prefix: str
    infix: str
    contents: tuple[str, ...] = ("content",)
    """Fields that hold the text of a message; the first one that is there counts."""

    def field(self, index: int | str, name: str) -> str:
        """Return the attribute of a field of the message at `index`."""
        return f"{self.prefix}{index}{self.infix}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeKeys:
    """The attributes of a dialect by what they hold, for readers of single spans. Of several, the first that is there
    counts."""

    kinds: tuple[KindAttribute, ...] = ()
    marks: tuple[tuple[str, SpanRole], ...] = ()
    """Attributes that tell the role of a span by being there, if no kind is recorded."""

    agents: tuple[str, ...] = ()
    """The agent's name, on spans of any kind."""
    no_agents: tuple[str, ...] = ()
    """Values of `agents` that name nobody."""
    agent_of: tuple[Callable[[str, Attributes], str | None], ...] = ()
    """Functions that read the agent from a span's name and attributes, if no attribute names it."""
    is_agent_run: tuple[Callable[[str, Attributes], bool], ...] = ()
    """Functions that tell by a span's name and attributes whether it is an agent's run, if no kind is recorded."""

    tools: tuple[str, ...] = ()
    """The name of a tool that was executed. Without it, the name of the span is the tool's."""
    tool_prefixes: tuple[str, ...] = ()
    """Beginnings of span names that do not belong to the tool's name."""
    tool_suffixes: tuple[str, ...] = ()
    """Endings of span names that do not belong to the tool's name."""
    handovers: tuple[str, ...] = ()
    """The agent that goes on with the conversation, on the span of a hand-over."""
    steering_tools: tuple[str, ...] = ()
    """Tools by which a framework steers itself. They are not the user's."""
    steering_prefixes: tuple[str, ...] = ()
    """Beginnings of the names of such tools."""
    arguments: tuple[str, ...] = ()
    argument_events: tuple[tuple[str, str], ...] = ()
    """Events that hold a tool's arguments, each with the name of the attribute in it."""
    results: tuple[str, ...] = ()
    answer_events: tuple[tuple[str, str], ...] = ()
    """Events that hold a tool's result or a model's reply, each with the name of the attribute in it."""

    models: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    """The messages that a model was sent, as JSON text."""
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
    """Return the keys of several dialects together, in their order."""
    listed = list(keys)
    joined = {field.name: sum((getattr(own, field.name) for own in listed), ()) for field in fields(AttributeKeys)}
    return AttributeKeys(**joined)


class Dialect(ABC):
    """One vocabulary of attributes. A dialect keeps no state, and never raises, whatever a span holds."""

    name: ClassVar[str]
    """Lower snake case, as listed in `Trace.dialects`."""
    content_switch: ClassVar[str | None] = None
    """A clause of advice if its spans lack content, such as "set X=true in the agent". None if there is no
    switch."""
    rank: ClassVar[int] = 1000
    """A fact is taken from the dialect with the lowest rank that knows it. Dialects that correct the GenAI conventions
    have ranks below 50."""
    is_common: ClassVar[bool] = False
    """True if dialects of vendors stand beside it: its keys are looked up before theirs, and its `content_switch` is
    advised after theirs."""
    is_by_names: ClassVar[bool] = False
    """True if `recognises` looks at nothing but the scope, the name and the operation of a span that has one, and the
    names of its attributes, unless events or log records come with it. Then it is asked once for all that are alike."""
    keys: ClassVar[AttributeKeys] = AttributeKeys()
    marks: ClassVar[frozenset[str]] = frozenset()
    """Attributes that only spans of this dialect have."""
    names: ClassVar[frozenset[str]] = frozenset()
    """Names that only spans of this dialect have."""

    def recognises(self, span: SpanRecord, logs: Sequence[LogRecord]) -> bool:
        """Return whether the span, or a log record that names it, speaks this dialect.

        Most dialects have marks or names, and are found by these without a call. What overrides this runs for every
        span, so it must be cheap.
        """
        return span.name in self.names or not span.attributes.keys().isdisjoint(self.marks)

    @abstractmethod
    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        """Return the facts of a recognised span and of the log records that name it."""
