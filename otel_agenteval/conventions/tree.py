"""The spans of a trace in their order and nesting, whatever order they arrived in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.model import AgentRun


@dataclass(slots=True, eq=False)
class Node:
    """A span in its tree. `facts` are empty where no dialect recognised it. `around` is the agent that the nearest span
    around it names, `run` the run of an agent that the span is a step of."""

    span: SpanRecord
    facts: SpanFacts
    parent: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)
    depth: int = 0
    around: str | None = None
    run: AgentRun | None = None

    @property
    def role(self) -> Role | None:
        return self.facts.role

    @property
    def agent(self) -> str | None:
        """The agent of this step; None where no span names it. The tools and model calls that an agent runs itself are
        then all of the same one, whichever of them name it."""
        return self.around or self.facts.agent

    @property
    def id(self) -> str:
        return self.span.span_id or ""

    def above(self) -> "Iterator[Node]":
        """Return the nodes around this one, from the inside out."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> "Iterator[Node]":
        """Walk this node and all within it, each before its children."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))


def in_order(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans by start time, then id; one of each id (the one that ended last), none without an id."""
    unique: dict[str, SpanRecord] = {}
    for span in spans:
        if span.span_id is None:
            continue
        other = unique.get(span.span_id)
        if other is None or _rank(span) > _rank(other):
            unique[span.span_id] = span
    return sorted(unique.values(), key=lambda span: (span.started_at, span.span_id or ""))


def grow(nodes: Sequence[Node]) -> list[Node]:
    """Join nodes, given in order, with their parents, and return those without a known parent. Spans that claim to be
    each other's ancestors are cut apart at the first of them."""
    by_id = {node.id: node for node in nodes}
    for node in nodes:
        parent = by_id.get(node.span.parent_id or "")
        if parent is not None and parent is not node:
            node.parent = parent
            parent.children.append(node)
    roots = [node for node in nodes if node.parent is None]
    reached = {id(node) for root in roots for node in _descend(root)}
    for node in nodes:
        if id(node) not in reached:
            if node.parent is not None:
                node.parent.children.remove(node)
                node.parent = None
            roots.append(node)
            reached.update(id(each) for each in _descend(node))
    return roots


def let_go(nodes: Sequence[Node]) -> None:
    """Cut nodes that are done with from their parents: all that was read of the spans goes at once then, and none of it
    waits for the garbage collector."""
    for node in nodes:
        node.parent = None


def _descend(root: Node) -> Iterator[Node]:
    for node in root.below():
        parent = node.parent
        node.depth = parent.depth + 1 if parent else 0
        node.around = (parent.facts.agent or parent.around) if parent else None
        yield node


def _rank(span: SpanRecord) -> tuple[int, int, str]:
    return span.ended_at, len(span.attributes), repr(span)
