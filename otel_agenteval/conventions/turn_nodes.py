"""Group the spans of a trace into turns. A turn is what happened between a question of the user and its answer.

A turn is an outermost agent run with everything in it. A run belongs to the turn before it where the conversation was
handed over to it, or where it starts from results of tools. Where no agent run was recorded, the model and tool spans
of the trace are one turn; a new one begins when a model is sent an earlier answer and the user's next words. A run that
only groups other runs is no turn.

Two instrumentations may record the same call: one span within the other, or beside it and without content. Such a call
counts once.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from otel_agenteval.conventions.dialect import SpanRole
from otel_agenteval.conventions.messages import ASSISTANT
from otel_agenteval.conventions.span_errors import is_explained, span_error
from otel_agenteval.conventions.spans import STATUS_ERROR
from otel_agenteval.conventions.steering import transfer_target
from otel_agenteval.conventions.tree import Node

_CALLS = (SpanRole.MODEL, SpanRole.TOOL)
# A span without content is compared with so many calls that started before it, and as many that started after it.
# Comparing it with all calls would take time that grows with the square of their number.
_NEAREST = 32


@dataclass(slots=True, eq=False)
class TurnNodes:
    """The nodes of one turn, each list by start time. `runs` is empty where no agent run was recorded."""

    root: Node
    runs: list[Node] = field(default_factory=list)
    models: list[Node] = field(default_factory=list)
    tools: list[Node] = field(default_factory=list)
    planners: set[str] = field(default_factory=set)
    """The span ids of the `models` that write a plan."""


def turn_nodes(roots: Sequence[Node], agents: Sequence[str]) -> list[TurnNodes]:
    """Return the turns of a trace by start time, given its local roots and the names of its agents."""
    runs, strays = _split(roots)
    found: list[TurnNodes] = []
    for run in runs:
        if not (found and (_goes_on(run) or _handed_over(found[-1].runs[-1], run, agents))):
            found.append(TurnNodes(root=run))
        found[-1].runs.append(run)
        _add_calls(found[-1], run)
    if strays and not found:
        first, *others = _openings(strays)
        found = [TurnNodes(root=node) for node in (first if others else _top(first), *others)]
    starts = [turn.root.span.started_at for turn in found]
    for node in strays:
        _add_calls(found[max(0, bisect_right(starts, node.span.started_at) - 1)], node)
    for turn in found:
        turn.models = _once(sorted(turn.models, key=_start))
        turn.tools.sort(key=_start)
    return found


def speakers(run: Node) -> list[Node]:
    """Return the runs that speak for a run: itself, then the agents within it that no tool called, by start time."""
    found = []
    pending = list(run.children)
    while pending:
        node = pending.pop()
        if node.role is SpanRole.AGENT:
            found.append(node)
        elif node.role not in _CALLS:
            pending.extend(node.children)
    return [run, *sorted(found, key=_start)]


def _split(roots: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """Return the outermost runs, and the outermost model and tool calls outside of any run."""
    outermost, outside = _outermost(roots)
    runs: list[Node] = []
    for run in outermost:
        is_silent = run.role is SpanRole.WORKFLOW and not run.facts.has_content
        inner, loose = _outermost(run.children) if is_silent else ([], [])
        if _are_turns(inner):
            runs += inner
            outside += loose
        else:
            runs.append(run)
    return sorted(runs, key=_start), sorted(outside, key=_start)


def _outermost(nodes: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    runs: list[Node] = []
    calls: list[Node] = []
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if _is_agent_run(node):
            runs.append(node)
        elif node.role in _CALLS:
            calls.append(node)
        else:
            pending.extend(node.children)
    return sorted(runs, key=_start), calls


def _openings(calls: Sequence[Node]) -> list[Node]:
    """Return the first call of each turn, given the calls of a trace without runs."""
    openings = [calls[0]]
    answers: set[str] = set()
    for node in calls:
        if _goes_on_after(answers, node):
            openings.append(node)
            answers.clear()
        answers |= _answers([node])
    return openings


def _are_turns(runs: Sequence[Node]) -> bool:
    """Return whether one of `runs` goes on from an answer that the run before it gave the user."""
    if len(runs) < 2:
        return False
    models = [sorted((each for each in run.below() if each.role is SpanRole.MODEL), key=_start) for run in runs]
    return any(after and _goes_on_after(_answers(before), after[0]) for before, after in pairwise(models))


def _answers(models: Iterable[Node]) -> set[str]:
    outputs = (node.facts.output for node in models if node.role is SpanRole.MODEL)
    return {text for output in outputs if output and (text := output.answer())}


def _goes_on_after(answers: set[str], model: Node) -> bool:
    """Return whether a model was sent one of `answers` and then the user's next words."""
    facts = model.facts
    if not answers or facts.role is not SpanRole.MODEL or facts.input is None or facts.input.cut:
        return False
    return any(each.role == ASSISTANT and each.text in answers for each in facts.input.before_user())


def _is_agent_run(node: Node) -> bool:
    if node.role is SpanRole.AGENT:
        return not _is_group(node)
    if node.role is SpanRole.WORKFLOW:
        return True
    facts = node.facts
    if facts.role is not SpanRole.CHAIN or facts.input is None or facts.output is None:
        return False
    # A step that takes and returns text is a helper of the program, unless it is a root, or a model works in it.
    if node.parent is not None and not any(each.role in (SpanRole.MODEL, SpanRole.AGENT) for each in node.below()):
        return False
    return facts.input.user_text() is not None and bool(facts.output.answer())


def _is_group(node: Node) -> bool:
    if node.facts.agent or node.facts.has_content:
        return False
    return any(each.role is SpanRole.AGENT for each in node.below() if each is not node)


def _goes_on(run: Node) -> bool:
    """Return whether a run starts from results of tools that an earlier run called, and not from a user's words."""
    messages = run.facts.input.messages if run.facts.input else []
    return bool(messages) and bool(messages[-1].responses) and not messages[-1].texts


def _handed_over(before: Node, run: Node, agents: Sequence[str]) -> bool:
    """Return whether a framework or a model handed over to the agent of `run`, in the run `before` it."""
    names = {node.facts.agent for node in speakers(run) if node.facts.agent}
    if not names or run.role is not SpanRole.AGENT:
        return False
    facts = [node.facts for node in before.below()]
    return any(each.hands_over_to in names for each in facts) or any(
        transfer_target(request, agents) in names
        for each in facts
        if each.role is SpanRole.MODEL
        for request in each.requests
    )


def _add_calls(turn: TurnNodes, top: Node) -> None:
    """Add the model and tool calls at and below `top`."""
    pending: list[tuple[Node, Node | None, bool]] = [(top, None, False)]
    while pending:
        node, around, planning = pending.pop()
        inside = around
        if around and _is_same_call(around, node):
            _merge(around, node)
        elif node.role is SpanRole.MODEL:
            turn.models.append(node)
            if planning:
                turn.planners.add(node.id)
            inside = node
        elif node.role is SpanRole.TOOL:
            turn.tools.append(node)
            inside = node
        elif node.role is SpanRole.AGENT:
            inside = None
        planning = planning or node.role is SpanRole.PLAN
        pending.extend((child, inside, planning) for child in node.children)


def _is_same_call(outer: Node, inner: Node) -> bool:
    if outer.role is not inner.role or outer.role is SpanRole.MODEL:
        return outer.role is inner.role
    called, tool = outer.facts.tool, inner.facts.tool
    return called == tool or bool(inner.facts.is_sent and called and tool and called.endswith(tool))


def _once(models: list[Node]) -> list[Node]:
    """Drop second spans of a model call beside the first: those of the same response, and a transport's own span."""
    kept: list[Node] = []
    by_response: dict[str, Node] = {}
    paired: set[str] = set()
    for node in models:
        if call := _reported_by(node, kept):
            _merge(call, node)
            continue
        response_id = node.facts.response_id
        first = by_response.get(response_id) if response_id else None
        call = node
        # An id that comes back after its call has ended is another call's.
        if first is None or node.span.started_at >= first.span.ended_at:
            kept.append(node)
        else:
            call, again = (node, first) if node.facts.has_content and not first.facts.has_content else (first, node)
            kept[kept.index(first)] = call
            paired.add(call.id)
            _merge(call, again)
        if response_id:
            by_response[response_id] = call
    calls = sorted((each for each in kept if each.facts.has_content and each.id not in paired), key=_start)
    starts = [each.span.started_at for each in calls]
    for node in [each for each in kept if not each.facts.has_content]:
        at = bisect_right(starts, node.span.started_at)
        near = calls[max(0, at - _NEAREST) : at + _NEAREST]
        senders = [each for each in near if each.id not in paired and _is_sent_by(each, node)]
        if senders:
            call = min(senders, key=lambda each: abs(each.span.started_at - node.span.started_at))
            paired.add(call.id)
            kept.remove(node)
            _merge(call, node)
    return sorted(kept, key=_start)


def _is_sent_by(call: Node, transport: Node) -> bool:
    """Return whether `transport`, which has no content, is another instrumentation's span of the same `call`."""
    facts, sent = call.facts, transport.facts
    if not facts.has_content or call.span.scope == transport.span.scope:
        return False
    if facts.response_id and sent.response_id and facts.response_id != sent.response_id:
        return False
    if not facts.model or not sent.model or call.span.parent_id != transport.span.parent_id:
        return False
    # A response names the model with its version, a request without it. A failed call has its request only.
    same_model = facts.model.startswith(sent.model) or sent.model.startswith(facts.model)
    return same_model and call.overlaps(transport)


def _merge(call: Node, again: Node) -> None:
    """Complete a call from its second span, and its error from the span that explains it. A model call that has its
    reply did not fail, even if an attempt at it did."""
    call.facts = replace(call.facts)
    call.facts.complete_with(again.facts)
    own, other = span_error(call.span), span_error(again.span)
    if other is None or (own is None and call.role is SpanRole.MODEL and call.facts.output is not None):
        return
    if own is None or (is_explained(again.span) and not is_explained(call.span)):
        call.span = replace(call.span, status=STATUS_ERROR, status_message=other, events=())


def _reported_by(node: Node, earlier: Sequence[Node]) -> Node | None:
    """Return the call whose reply `node` reports: it stands beside `node`, lacks a reply, and was sent the same
    messages."""
    if not node.facts.is_report:
        return None
    for call in earlier:
        if call.facts.output is None and call.parent is node.parent:
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
