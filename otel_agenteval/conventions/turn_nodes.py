"""Group the spans of a trace into turns. A turn is what happened between a question of the user and its answer.

A turn is an outermost agent run with everything in it. A run belongs to the turn before it if the conversation was
handed over to it, or if it starts from results of tools. If no agent run was recorded, the model and tool spans
of the trace are one turn; a new one begins when a model is sent an earlier answer and the user's next words. A run that
only groups other runs is no turn.

Two instrumentations may record the same call or run: one span within the other, or beside it with the same reply or
without content. It counts once.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from otel_agenteval.conventions.dialect import NOTHING, SpanFacts, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, ToolRequest
from otel_agenteval.conventions.scopes import records_agents
from otel_agenteval.conventions.span_errors import is_explained, span_error
from otel_agenteval.conventions.spans import STATUS_ERROR
from otel_agenteval.conventions.steering import transfer_target
from otel_agenteval.conventions.tree import Node

# opencode, LibreChat, Open WebUI.
_WRITES_TITLES = re.compile(
    r"\s*(?:you are|act as) an? (?:[\w-]+ ){0,3}title (?:generator|writer)"
    r"|\s*(?:generate|write|create|provide) an? [\w ,-]{0,40}\btitle\b",
    re.IGNORECASE,
)
_CALLS = (SpanRole.MODEL, SpanRole.TOOL)
# A span is compared with so many calls that started before it, and as many that started after it. Comparing it with all
# calls would take time that grows with the square of their number.
_NEAREST = 32


@dataclass(slots=True, eq=False)
class TurnNodes:
    """The nodes of one turn, each list by start time. `runs` is empty if no agent run was recorded."""

    root: Node
    runs: list[Node] = field(default_factory=list)
    models: list[Node] = field(default_factory=list)
    tools: list[Node] = field(default_factory=list)
    handovers: list[Node] = field(default_factory=list)
    """Spans of hand-overs that are no tool calls."""
    unread_failures: list[Node] = field(default_factory=list)
    """Failed spans outside of any call that no dialect knows, of scopes that record agents."""
    planners: set[str] = field(default_factory=set)
    """The span ids of the `models` that write a plan."""


def turn_nodes(roots: Sequence[Node], agents: Sequence[str]) -> list[TurnNodes]:
    """Return the turns of a trace by start time, given its local roots and the names of its agents."""
    runs, strays = _split(roots)
    if len(runs) > 1 and (helpers := [run for run in runs if _is_helper(run)]) and len(helpers) < len(runs):
        runs = [run for run in runs if run not in helpers]
        strays = sorted((*strays, *(call for run in helpers for call in _outermost(run.children)[1])), key=_start)
    turns: list[TurnNodes] = []
    for run in runs:
        before = turns[-1].runs[-1] if turns else None
        if not (before and (_goes_on(run) or _handed_over(before, run, agents) or _is_run_again(before, run))):
            turns.append(TurnNodes(root=run))
        turns[-1].runs.append(run)
        _add_calls(turns[-1], run)
    if strays and not turns:
        first, *others = _openings(strays)
        turns = [TurnNodes(root=node) for node in (first if others else top_of(first), *others)]
    starts = [turn.root.span.started_at for turn in turns]
    for node in strays:
        _add_calls(turns[max(0, bisect_right(starts, node.span.started_at) - 1)], node)
    for turn in turns:
        turn.models = _once(sorted(turn.models, key=_start))
        turn.tools = _executed_once(sorted(turn.tools, key=_start))
    return turns


def speakers(run: Node) -> list[Node]:
    """Return the runs that speak for a run: itself, then the agents within it that no tool called, by start time."""
    nodes = []
    pending = list(run.children)
    while pending:
        node = pending.pop()
        if node.role is SpanRole.AGENT:
            nodes.append(node)
        elif node.role not in _CALLS:
            pending.extend(node.children)
    return [run, *sorted(nodes, key=_start)]


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


def _is_helper(run: Node) -> bool:
    """Return whether a run writes the title of a conversation beside it, as programs for chats have it done."""
    first = run.facts.input.first() if run.facts.input else None
    return first is not None and first.role == SYSTEM and _WRITES_TITLES.match(first.text or "") is not None


def _are_turns(runs: Sequence[Node]) -> bool:
    """Return whether one of `runs` goes on from an answer that the run before it gave the user."""
    if len(runs) < 2:
        return False
    models = [_models_below(run) for run in runs]
    return any(after and _goes_on_after(_answers(before), after[0]) for before, after in pairwise(models))


def _answers(models: Iterable[Node]) -> set[str]:
    outputs = (node.facts.output for node in models if node.role is SpanRole.MODEL)
    return {text for output in outputs if output and (text := output.answer())}


def _goes_on_after(answers: set[str], model: Node) -> bool:
    """Return whether a model was sent one of `answers` and then the user's next words."""
    facts = model.facts
    if not answers or facts.role is not SpanRole.MODEL or facts.input is None or facts.input.cut:
        return False
    return any(message.role == ASSISTANT and message.text in answers for message in facts.input.before_user())


def _is_agent_run(node: Node) -> bool:
    if node.role is SpanRole.AGENT:
        return not _is_group(node)
    if node.role is SpanRole.WORKFLOW:
        return True
    facts = node.facts
    # A root that failed has no answer.
    has_ended = facts.output is not None or (node.parent is None and node.span.status == STATUS_ERROR)
    if facts.role is not SpanRole.CHAIN or facts.input is None or not has_ended:
        return False
    # A step that takes and returns text is a helper of the program, unless it is a root, or a model works in it.
    if node.parent is not None and not any(other.role in (SpanRole.MODEL, SpanRole.AGENT) for other in node.below()):
        return False
    return facts.input.user_text() is not None and (facts.output is None or bool(facts.output.answer()))


def _is_group(node: Node) -> bool:
    if node.facts.agent or node.facts.has_content:
        return False
    return any(other.role is SpanRole.AGENT for other in node.below() if other is not node)


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
    return any(fact.hands_over_to in names for fact in facts) or any(
        transfer_target(request, agents) in names
        for fact in facts
        if fact.role is SpanRole.MODEL
        for request in fact.requests
    )


def _is_run_again(run: Node, node: Node) -> bool:
    """Return whether `node` is another instrumentation's span of the same `run`: meanwhile, its models reply the
    same."""
    if run.span.scope == node.span.scope or not run.overlaps(node):
        return False
    replies, again = ([_said(model.facts) for model in _models_below(outer)] for outer in (run, node))
    return replies == again and ([], []) not in replies and bool(replies)


def _models_below(run: Node) -> list[Node]:
    return sorted((call for call in run.below() if call.role is SpanRole.MODEL), key=_start)


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
        elif around is None and node.facts is NOTHING and span_error(node.span) and records_agents(node.span.scope):
            turn.unread_failures.append(node)
        elif node.facts.hands_over_to is not None:
            turn.handovers.append(node)
        planning = planning or node.role is SpanRole.PLAN
        pending.extend((child, inside, planning) for child in node.children)


def _is_same_call(outer: Node, inner: Node) -> bool:
    if outer.role is not inner.role:
        return False
    if outer.role is SpanRole.MODEL:
        return not _are_different_calls(outer, inner)
    called, tool = outer.facts.tool, inner.facts.tool
    if tool is None and inner.facts.call_id is not None:
        return inner.facts.call_id == outer.facts.call_id
    return called == tool or bool(inner.facts.is_sent and called and tool and called.endswith(tool))


def _are_different_calls(outer: Node, inner: Node) -> bool:
    """Return whether a model call within another is a call of its own: their replies differ, and either one
    instrumentation recorded both, or they have different response ids. Two instrumentations may word one reply in two
    ways, and attempts have no reply."""
    words, again = _said(outer.facts), _said(inner.facts)
    if ([], []) in (words, again) or words == again:
        return False
    mine, others = outer.facts.response_id, inner.facts.response_id
    if outer.span.scope == inner.span.scope:
        return mine is None or mine != others
    return mine is not None and others is not None and mine != others


def _once(models: list[Node]) -> list[Node]:
    """Drop second spans of a model call beside the first: those of the same response, and another instrumentation's."""
    nodes: list[Node] = []
    by_response: dict[str, Node] = {}
    paired: set[str] = set()
    for node in models:
        if call := _reported_by(node, nodes):
            _merge(call, node)
            continue
        response_id = node.facts.response_id
        first = by_response.get(response_id) if response_id else None
        call = node
        # An id that comes back after its call has ended is another call's.
        if first is None or node.span.started_at >= first.span.ended_at:
            nodes.append(node)
        else:
            call, again = (node, first) if node.facts.has_content and not first.facts.has_content else (first, node)
            nodes[nodes.index(first)] = call
            paired.add(call.id)
            _merge(call, again)
        if response_id:
            by_response[response_id] = call
    if len({call.span.scope for call in nodes}) < 2:
        return sorted(nodes, key=_start)  # The search below takes time, and one instrumentation records a call once.
    calls = sorted((call for call in nodes if call.facts.has_content and call.id not in paired), key=_start)
    starts = [call.span.started_at for call in calls]
    dropped: set[str] = set()
    for node in calls + [call for call in nodes if not call.facts.has_content]:
        at = bisect_right(starts, node.span.started_at)
        near = calls[max(0, at - _NEAREST) : at + _NEAREST]
        free = [call for call in near if call.id not in paired and _is_recorded_again(call, node)]
        if free:
            call = min(free, key=lambda call: abs(call.span.started_at - node.span.started_at))
            paired |= {call.id, node.id}
            dropped.add(node.id)
            _merge(call, node)
    return sorted((call for call in nodes if call.id not in dropped), key=_start)


def _is_recorded_again(call: Node, node: Node) -> bool:
    """Return whether `node` is another instrumentation's span of the same `call`: with the same reply and started
    later, or beside it and without content."""
    facts, again = call.facts, node.facts
    if call.span.scope == node.span.scope or not call.overlaps(node):
        return False
    if facts.response_id and again.response_id and facts.response_id != again.response_id:
        return False
    if not facts.model or not again.model:
        return False
    # A response names the model with its version, a request without it. A failed call has its request only.
    if not facts.model.startswith(again.model) and not again.model.startswith(facts.model):
        return False
    if not again.has_content:
        return call.span.parent_id == node.span.parent_id
    questions = {record.input.user_text() for record in (facts, again) if record.input} - {None}
    words = _said(facts)
    return _start(call) < _start(node) and len(questions) < 2 and words != ([], []) and words == _said(again)


def _said(facts: SpanFacts) -> tuple[list[str], list[ToolRequest]]:
    """Return the texts of a reply and the tools that it asks for."""
    return [text for message in facts.replies for text in message.texts], facts.requests


def _executed_once(tools: list[Node]) -> list[Node]:
    """Drop second spans of a tool call beside the first: another instrumentation's, with its call id and while it
    lasts."""
    nodes: list[Node] = []
    by_call: dict[tuple[str | None, str], Node] = {}
    for node in tools:
        if call_id := node.facts.call_id:
            call = by_call.setdefault((node.facts.tool, call_id), node)
            if call.span.scope != node.span.scope and call.overlaps(node):
                _merge(call, node)
                continue
            by_call[node.facts.tool, call_id] = node
        nodes.append(node)
    return nodes


def _merge(call: Node, again: Node) -> None:
    """Complete a call from its second span, and its error from the span that explains it. A model call that has its
    reply did not fail, even if an attempt at it did."""
    call.facts = replace(call.facts)
    call.facts.complete_with(again.facts)
    usage, other = call.facts.usage, again.facts.usage
    if usage and other and not usage.other and usage.total == other.total:
        call.facts.usage = replace(usage, other=other.other)
    own, its = span_error(call.span), span_error(again.span)
    if its is None or (own is None and call.role is SpanRole.MODEL and call.facts.output is not None):
        return
    if own is None or (is_explained(again.span) and not is_explained(call.span)):
        call.span = replace(call.span, status=STATUS_ERROR, status_message=its, events=())


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


def top_of(node: Node) -> Node:
    """Return the outermost span around a span that has come."""
    while node.parent is not None:
        node = node.parent
    return node


def _start(node: Node) -> tuple[int, int, str]:
    return node.span.started_at, node.depth, node.id
