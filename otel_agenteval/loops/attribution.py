"""Whose step a span is: the agent that is named around it, and in which of its runs."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import format_span_id

from otel_agenteval.agent_names import Attributes, agent_of, is_run
from otel_agenteval.detectors import StepKind
from otel_agenteval.loops.light_reader import kind_of
from otel_agenteval.model import AgentRun

MAX_DEPTH: Final = 32
"""Spans around a span that are looked at."""


class Whose(NamedTuple):
    """What is known of what stands directly inside a span. `label` tells runs of one agent from those of others."""

    agent: str | None = None
    run: AgentRun | None = None
    label: str | None = None
    in_tool: bool = False


class Around(Protocol):
    """An open span; what stands inside it is kept there, with how many spans and attributes it was read from."""

    span: ReadableSpan
    inside: Whose | None
    read: tuple[int, int]


NOBODY: Final = Whose()


def whose(span: ReadableSpan, spans: Mapping[int, Around]) -> Whose:
    """Whose step `span` is, by the open spans around it, which are found by their ids."""
    unnamed: list[Around] = []
    found = NOBODY
    attributes = 0
    parent = span.parent
    while parent is not None and len(unnamed) < MAX_DEPTH and (around := spans.get(parent.span_id)) is not None:
        if around.inside is not None and around.inside.agent is not None:
            found = around.inside
            break
        unnamed.append(around)
        attributes += len(around.span.attributes or ())
        parent = around.span.parent
    if not unnamed:
        return found
    # An agent that is not named yet may be later.
    nearest, read = unnamed[0], (len(unnamed), attributes)
    if nearest.inside is not None and nearest.read == read:
        return nearest.inside
    for around in reversed(unnamed):
        found = around.inside = _inside(around, found, spans)
    nearest.read = read
    return found


def agent_named(span: ReadableSpan, attributes: Attributes) -> str | None:
    """The agent that `span` itself names by its `attributes` or its name; None where it names none."""
    scope = span.instrumentation_scope
    return agent_of(span.name, attributes, scope.name if scope is not None else "")


def _inside(around: Around, outer: Whose, spans: Mapping[int, Around]) -> Whose:
    span = around.span
    attributes = span.attributes
    said = attributes.copy() if attributes is not None else {}  # type: ignore[attr-defined]
    named = agent_named(span, said)
    agent = named or outer.agent
    if kind_of(span.name, said) is StepKind.TOOL:
        return outer._replace(agent=agent, in_tool=True)
    if not is_run(span.name, said):
        return outer._replace(agent=agent)
    label = named or span.name
    if label == outer.label and not outer.in_tool:
        # One run, recorded twice or anew in every turn of it.
        return outer
    context = span.get_span_context()
    run = AgentRun(
        format_span_id(context.span_id) if context is not None else "",
        is_called=outer.in_tool or (outer.run is not None and outer.agent is not None),
        is_parallel=_is_parallel(around, spans),
    )
    return Whose(agent, run, label)


def _is_parallel(run: Around, spans: Mapping[int, Around]) -> bool:
    """Whether another run of the same agent goes on beside this one: its span has the same name."""
    beside = {id(each) for each in spans.values() if each.span.name == run.span.name}
    around: Around | None = run
    for _ in range(MAX_DEPTH):
        if around is None:
            break
        beside.discard(id(around))
        parent = around.span.parent
        around = spans.get(parent.span_id) if parent is not None else None
    return bool(beside)
