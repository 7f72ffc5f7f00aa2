"""Which spans belong to one exchange between user and agent.

An exchange is an outermost agent run with all that happened in it; a run that the previous one handed the conversation
to belongs to the same exchange. Where no agent run was recorded, all model and tool spans of the trace are one
exchange: nothing says where another would begin. A trace with neither (an agent's construction, plain HTTP) has none.

A span that calls itself an agent's run, but names no agent, says nothing and has runs within it, only groups them.

A model or tool call that two instrumentations recorded, one span within the other, counts once.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from otel_agenteval.conventions.facts import Role
from otel_agenteval.conventions.tools import transfer_target
from otel_agenteval.conventions.tree import Node

_CALLS = (Role.MODEL, Role.TOOL)


@dataclass(slots=True, eq=False)
class Exchange:
    """The nodes of one turn, each list by start time; `runs` is empty where no agent run was recorded."""

    root: Node
    runs: list[Node] = field(default_factory=list)
    models: list[Node] = field(default_factory=list)
    tools: list[Node] = field(default_factory=list)
    planners: set[str] = field(default_factory=set)
    """The span ids of those `models` that write a plan."""


def exchanges(roots: Sequence[Node], agents: Sequence[str]) -> list[Exchange]:
    """The exchanges of a trace by start time, given its local roots and the names of its agents."""
    runs, strays = _split(roots)
    found: list[Exchange] = []
    for run in runs:
        if not (found and _handed_over(found[-1].runs[-1], run, agents)):
            found.append(Exchange(root=run))
        found[-1].runs.append(run)
        _add_calls(found[-1], run)
    if strays and not found:
        found.append(Exchange(root=_top(strays[0])))
    starts = [exchange.root.span.started_at for exchange in found]
    for node in strays:
        _add_calls(found[max(0, bisect_right(starts, node.span.started_at) - 1)], node)
    for exchange in found:
        exchange.models = _once(sorted(exchange.models, key=_start))
        exchange.tools.sort(key=_start)
    return found


def speakers(run: Node) -> list[Node]:
    """The runs that speak for a run: itself, then the agents it is made of (not those that tools call), by start."""
    found = []
    pending = list(run.children)
    while pending:
        node = pending.pop()
        if node.role is Role.AGENT:
            found.append(node)
        elif node.role not in _CALLS:
            pending.extend(node.children)
    return [run, *sorted(found, key=_start)]


def _split(roots: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """The outermost runs, and the outermost model and tool calls outside of any run."""
    runs: list[Node] = []
    strays: list[Node] = []
    pending = list(roots)
    while pending:
        node = pending.pop()
        if _is_run(node):
            runs.append(node)
        elif node.role in _CALLS:
            strays.append(node)
        else:
            pending.extend(node.children)
    return sorted(runs, key=_start), sorted(strays, key=_start)


def _is_run(node: Node) -> bool:
    if node.role is Role.AGENT:
        return not _is_group(node)
    if node.role is Role.WORKFLOW:
        return True
    facts = node.facts
    if facts is None or facts.role is not Role.CHAIN or facts.input is None or facts.output is None:
        return False
    return facts.input.user_text() is not None and facts.output.answer() is not None


def _is_group(node: Node) -> bool:
    facts = node.facts
    if facts is None or facts.agent or facts.input or facts.output:
        return False
    return any(each.role is Role.AGENT for each in node.below() if each is not node)


def _handed_over(before: Node, run: Node, agents: Sequence[str]) -> bool:
    """Whether the framework or a model said, in the run `before` this one, to go on with the agent of `run`."""
    names = {node.facts.agent for node in speakers(run) if node.facts and node.facts.agent}
    if not names or run.role is not Role.AGENT:
        return False
    facts = [node.facts for node in before.below() if node.facts]
    return any(each.hands_over_to in names for each in facts) or any(
        transfer_target(request, agents) in names
        for each in facts
        if each.role is Role.MODEL and each.output
        for message in each.output.messages
        for request in message.requests
    )


def _add_calls(exchange: Exchange, top: Node) -> None:
    """Add the model and tool calls from `top` downwards."""
    pending: list[tuple[Node, Node | None, bool]] = [(top, None, False)]
    while pending:
        node, around, planning = pending.pop()
        facts, inside = node.facts, around
        if facts is None:
            pass
        elif around and around.facts and _is_same_call(around, node):
            around.facts.complete_with(facts)
        elif facts.role is Role.MODEL:
            exchange.models.append(node)
            if planning:
                exchange.planners.add(node.id)
            inside = node
        elif facts.role is Role.TOOL:
            exchange.tools.append(node)
            inside = node
        elif facts.role is Role.AGENT:
            inside = None
        planning = planning or node.role is Role.PLAN
        pending.extend((child, inside, planning) for child in node.children)


def _is_same_call(outer: Node, inner: Node) -> bool:
    if outer.role is Role.TOOL and inner.facts and outer.facts:
        return inner.role is Role.TOOL and inner.facts.tool == outer.facts.tool
    return outer.role is Role.MODEL and inner.role is Role.MODEL


def _once(models: list[Node]) -> list[Node]:
    """Model calls without second recordings beside the first: the same response at the same time."""
    kept: list[Node] = []
    by_response: dict[str, Node] = {}
    for node in models:
        facts = node.facts
        if (call := _reported_by(node, kept)) and call.facts and facts:
            call.facts.complete_with(facts)
            continue
        response_id = facts.response_id if facts else None
        first = by_response.get(response_id or "")
        if first and first.facts and facts and node.span.started_at < first.span.ended_at:
            first.facts.complete_with(facts)
            continue
        kept.append(node)
        if response_id:
            by_response[response_id] = node
    return kept


def _reported_by(node: Node, earlier: Sequence[Node]) -> Node | None:
    """The call beside `node` that lacks the reply which `node` reports, known by the messages that were sent."""
    if node.facts is None or not node.facts.is_report:
        return None
    for call in earlier:
        if call.facts and call.facts.output is None and call.parent is node.parent:
            sent, repeated = call.facts.input, node.facts.input
            if (sent.messages if sent else None) == (repeated.messages if repeated else None):
                return call
    return None


def _top(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _start(node: Node) -> tuple[int, int, str]:
    return node.span.started_at, node.depth, node.id
