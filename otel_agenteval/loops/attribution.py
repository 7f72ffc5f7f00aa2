"""Attribution of a step to its agent and agent run, by the open spans around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import format_span_id

from otel_agenteval.context import SpanIdentity
from otel_agenteval.conventions.agents import agent_of, is_agent_run
from otel_agenteval.conventions.dialect import Attributes
from otel_agenteval.detectors.steps import StepKind
from otel_agenteval.loops.light_reader import kind_of
from otel_agenteval.model import AgentRun
from otel_agenteval.sending.buffer import attributes_of

MAX_DEPTH: Final = 32
"""Spans around a span that are looked at, from the inside out."""


class Owner(NamedTuple):
    """The agent, and its run, that steps directly inside a span belong to, as far as they are known.

    `label` is the agent's name, or that of its run's span if no agent is named. `in_tool` says that a tool call lies
    between the agent run and the span.
    """

    agent: str | None = None
    agent_run: AgentRun | None = None
    label: str | None = None
    in_tool: bool = False


@dataclass(slots=True, eq=False)
class StartedSpan:
    """A span that has started, and the identity that the application gave it."""

    span: ReadableSpan
    identity: SpanIdentity | None
    inside: Owner | None = None
    """The owner of steps directly inside the span, as it was last computed."""
    read: tuple[int, int] = (0, 0)
    """The numbers of spans and of attributes that `inside` was computed from. More of either may name an agent."""
    stirred_at: int = 0
    """The start of the newest span inside this one that ended before a detector saw it; 0 for none. At that time, this
    span did not hang."""


NOBODY: Final = Owner()


def owner_of(span: ReadableSpan, spans: Mapping[int, StartedSpan]) -> Owner:
    """Return the owner of `span`. `spans` are the open spans of its trace, by id."""
    unnamed: list[StartedSpan] = []
    owner = NOBODY
    attributes = 0
    parent = span.parent
    while parent is not None and len(unnamed) < MAX_DEPTH and (around := spans.get(parent.span_id)) is not None:
        if around.inside is not None and around.inside.agent is not None:
            owner = around.inside
            break
        unnamed.append(around)
        attributes += len(around.span.attributes or ())
        parent = around.span.parent
    if not unnamed:
        return owner
    # Instrumentations may name an agent after the start of its span, so an owner without a name is computed again.
    nearest, read = unnamed[0], (len(unnamed), attributes)
    if nearest.inside is not None and nearest.read == read:
        return nearest.inside
    for around in reversed(unnamed):
        owner = around.inside = _inside(around, owner, spans)
    nearest.read = read
    return owner


def agent_named(span: ReadableSpan, attributes: Attributes) -> str | None:
    """Return the agent that `span` itself names, by its `attributes` or its name; None if it names none."""
    scope = span.instrumentation_scope
    return agent_of(span.name, attributes, scope.name if scope is not None else "")


def _inside(around: StartedSpan, outer: Owner, spans: Mapping[int, StartedSpan]) -> Owner:
    span = around.span
    attributes = attributes_of(span)
    named = agent_named(span, attributes)
    agent = named or outer.agent
    if kind_of(span.name, attributes) is StepKind.TOOL:
        return outer._replace(agent=agent, in_tool=True)
    if not is_agent_run(span.name, attributes):
        return outer._replace(agent=agent)
    label = named or span.name
    if label == outer.label and not outer.in_tool:
        # The same agent run, recorded twice, or again in each of its turns.
        return outer
    context = span.get_span_context()
    agent_run = AgentRun(
        format_span_id(context.span_id) if context is not None else "",
        is_called=outer.in_tool or (outer.agent_run is not None and outer.agent is not None),
        is_parallel=_is_parallel(around, spans),
        is_tool=outer.in_tool,
    )
    return Owner(agent, agent_run, label)


def _is_parallel(run: StartedSpan, spans: Mapping[int, StartedSpan]) -> bool:
    """Return whether another run of the same agent is open beside this one: a span of the same name, not around it."""
    beside = {id(other) for other in spans.values() if other.span.name == run.span.name}
    around: StartedSpan | None = run
    for _ in range(MAX_DEPTH):
        if around is None:
            break
        beside.discard(id(around))
        parent = around.span.parent
        around = spans.get(parent.span_id) if parent is not None else None
    return bool(beside)
