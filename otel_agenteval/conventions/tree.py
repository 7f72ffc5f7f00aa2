"""The tree of a trace's spans, whatever order they arrived in, and the agent run that each span is a step of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from otel_agenteval.conventions.dialect import SpanFacts, SpanRole
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.model import AgentRun


@dataclass(slots=True, eq=False)
class Node:
    """A span in its tree.

    `facts` are empty if no dialect recognised the span. `around` is the agent that the nearest span around it names.
    `agent_run` is the agent run that the span is a step of. `tool_at` is when the outermost tool call around it began.
    """

    span: SpanRecord
    facts: SpanFacts
    parent: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)
    depth: int = 0
    around: str | None = None
    agent_run: AgentRun | None = None
    tool_at: int | None = None

    @property
    def role(self) -> SpanRole | None:
        return self.facts.role

    @property
    def agent(self) -> str | None:
        """The agent of this step; None if no span names one. A span around the step is believed before the step
        itself, because only some of an agent's calls name it."""
        return self.around or self.facts.agent

    @property
    def id(self) -> str:
        return self.span.span_id or ""

    def overlaps(self, other: "Node") -> bool:
        """Return whether both spans lasted at one time."""
        return self.span.started_at < other.span.ended_at and other.span.started_at < self.span.ended_at

    def above(self) -> "Iterator[Node]":
        """Yield the nodes around this one, from the inside out."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> "Iterator[Node]":
        """Yield this node and all within it, each before its children."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))


def in_order(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans by start time, then by id. Of spans with the same id only the one that ended last counts, and
    spans without an id are left out."""
    unique: dict[str, SpanRecord] = {}
    for span in spans:
        if span.span_id is None:
            continue
        other = unique.get(span.span_id)
        if other is None or _rank(span) > _rank(other):
            unique[span.span_id] = span
    return sorted(unique.values(), key=lambda span: (span.started_at, span.span_id or ""))


def grow(nodes: Sequence[Node]) -> list[Node]:
    """Join nodes, given in order, with their parents, and return the roots: those without a known parent. If spans
    are each other's ancestors, the first of them becomes a root."""
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
            reached.update(id(descendant) for descendant in _descend(node))
    return roots


def let_go(nodes: Sequence[Node]) -> None:
    """Cut nodes from their parents when they are no longer needed. Without these cycles memory is freed at once, and
    not only by the garbage collector."""
    for node in nodes:
        node.parent = None


def _descend(root: Node) -> Iterator[Node]:
    for node in root.below():
        parent = node.parent
        node.depth = parent.depth + 1 if parent else 0
        node.around = (parent.facts.agent or parent.around) if parent else None
        if parent:
            is_outermost = parent.tool_at is None and parent.role is SpanRole.TOOL
            node.tool_at = parent.span.started_at if is_outermost else parent.tool_at
        yield node


def _rank(span: SpanRecord) -> tuple[int, int, str]:
    return span.ended_at, len(span.attributes), repr(span)


class _Inside(NamedTuple):
    """The owner of the steps directly inside a span: the agent run, the name of its agent or span, and whether they are
    inside a tool call of it."""

    agent_run: Node | None = None
    label: str | None = None
    in_tool: bool = False


def tell_agent_runs_apart(roots: Sequence[Node]) -> None:
    """Set the `agent_run` of every node that stands below an agent run."""
    inside: dict[str, _Inside] = {}
    runs: list[tuple[str, Node]] = []
    called: set[str] = set()
    tools: set[str] = set()
    nodes = [node for root in roots for node in root.below()]
    for node in nodes:
        outer = inside[node.parent.id] if node.parent else _Inside()
        inside[node.id] = outer
        if node.role is SpanRole.TOOL:
            inside[node.id] = outer._replace(in_tool=True)
        elif node.role is SpanRole.AGENT:
            label = node.facts.agent or node.span.name
            if label != outer.label or outer.in_tool:
                inside[node.id] = _Inside(node, label)
                runs.append((label, node))
                if outer.in_tool:
                    tools.add(node.id)
                if outer.in_tool or (outer.agent_run and outer.agent_run.facts.agent):
                    called.add(node.id)
    parallel = _parallel(runs)
    by_span = {node.id: AgentRun(node.id, node.id in called, node.id in parallel, node.id in tools) for _, node in runs}
    for node in nodes:
        run = inside[node.parent.id].agent_run if node.parent else None
        node.agent_run = by_span[run.id] if run else None


def _parallel(runs: Sequence[tuple[str, Node]]) -> set[str]:
    """Return the ids of runs that overlap in time with another run of the same label."""
    agents: set[str] = set()
    in_order = sorted(runs, key=lambda run: (run[0], run[1].span.started_at))
    for _, of_agent in groupby(in_order, key=lambda run: run[0]):
        before: Node | None = None
        for _, node in of_agent:
            if before is not None and node.span.started_at < before.span.ended_at:
                agents |= {before.id, node.id}
            if before is None or node.span.ended_at > before.span.ended_at:
                before = node
    return agents
