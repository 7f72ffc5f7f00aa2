"""The documents of spans: those of a listing, and one by itself with all that was recorded on it."""

from typing import Any, Literal, TypeAlias, final

from typing_extensions import TypedDict

from agenteval_collector.api.documents import Listing

RoleName: TypeAlias = Literal["agent", "workflow", "chain", "model", "tool", "plan", "retrieval"]


class SpanFields(TypedDict):
    """The fields that a span has in a listing and by itself.

    `parent_id` is null where the parent is not among the trace's spans; `depth` counts the spans around it. `below` is
    the number of spans under it. `agent` is the one that the span itself names. `role` and what follows from it are
    null where no dialect recognises the span. `usd` is null where the price or the tokens are not known.
    """

    span_id: str
    parent_id: str | None
    depth: int
    below: int
    name: str
    role: RoleName | None
    agent: str | None
    model: str | None
    tool: str | None
    started_at: str | None
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    error: str | None


@final
class SpanItem(SpanFields):
    """A span in a listing."""


class RequestDocument(TypedDict):
    """A call that a message asks for; `arguments` are decoded JSON, or the raw text where it is none."""

    name: str
    arguments: Any


class MessageDocument(TypedDict):
    """A message as it was recorded; `results` are those of tools that went back to the model."""

    role: str
    text: str | None
    reasoning: list[str]
    requests: list[RequestDocument]
    results: list[Any]


class EventDocument(TypedDict):
    """A span event."""

    name: str
    time: str | None
    attributes: dict[str, Any]


@final
class SpanDocument(SpanFields):
    """A span by itself. `input` and `output` are the messages of a model call, and of an agent what it was asked and
    answered; null where none were recorded. `attributes` are all that were recorded, messages included."""

    instructions: Any
    input: list[MessageDocument] | None
    output: list[MessageDocument] | None
    arguments: Any
    result: Any
    scope: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[EventDocument]


class SpanPage(Listing[SpanItem]):
    """Spans of a trace, each before those under it. `span_count` is the number of those that can be shown; null where
    they were forgotten: the log keeps spans for `log.retention`, scores and findings stay."""

    span_count: int | None
