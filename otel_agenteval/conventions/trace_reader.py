"""Read what happened in a trace from its spans and log records."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any, NamedTuple

from otel_agenteval import semconv
from otel_agenteval.conventions import identity, run_attributes
from otel_agenteval.conventions.conversation import conversation
from otel_agenteval.conventions.decoding import decode_structure, known_text
from otel_agenteval.conventions.dialect import NOTHING, SpanFacts, SpanRole
from otel_agenteval.conventions.embeddings import embedding_calls
from otel_agenteval.conventions.fingerprint import fingerprint
from otel_agenteval.conventions.history import begins_with_user, earlier_steps, first_sent, history
from otel_agenteval.conventions.input_cache import InputCache
from otel_agenteval.conventions.messages import SYSTEM
from otel_agenteval.conventions.not_understood import failed_steps, unknown_spans
from otel_agenteval.conventions.plain_traces import PlainTrace, plain_trace
from otel_agenteval.conventions.registry import DIALECTS
from otel_agenteval.conventions.span_errors import repeats
from otel_agenteval.conventions.span_reader import ReadSpan, read_span
from otel_agenteval.conventions.spans import STATUS_ERROR, STATUS_OK, EventRecord, LogRecord, SpanRecord
from otel_agenteval.conventions.times import repaired
from otel_agenteval.conventions.tool_calls import tool_requests
from otel_agenteval.conventions.tool_definitions import available_tools
from otel_agenteval.conventions.tree import Node, grow, in_order, let_go, tell_agent_runs_apart
from otel_agenteval.conventions.turn_nodes import TurnNodes, turn_nodes
from otel_agenteval.conventions.turns import read_plain_turn, read_turn
from otel_agenteval.conventions.unknown_spans import read_unknown
from otel_agenteval.model import Json, Trace, Turn, told_of

_UPLOADED = (semconv.GEN_AI_OUTPUT_MESSAGES, semconv.GEN_AI_INPUT_MESSAGES)
"""Instrumentations may upload messages elsewhere. Then `gen_ai.input.messages_ref` is their address."""
MAX_SERVICE_VERSIONS = 16
"""Versions of services that are read of one trace."""


def read_trace(
    trace_id: str,
    spans: Sequence[SpanRecord],
    logs: Sequence[LogRecord] = (),
    naming: identity.SessionNaming = identity.BY_CONVENTION,
    run_naming: run_attributes.RunNaming = run_attributes.STAMPED,
    read_span: ReadSpan = read_span,
    input_cache: InputCache | None = None,
    received_at: int = 0,
) -> Trace:
    """Read a trace from its spans and log records, by the dialects that recognise them.

    `naming` and `run_naming` say which attributes of the application name the session and the run. `read_span` may
    remember spans that were read before, `input_cache` the messages of the session's earlier traces. The order does not
    matter, and what arrived twice counts once. Nothing raises: `Trace.unread` counts what could not be read. By
    `received_at` (nanoseconds since the Unix epoch; 0: not known) times that cannot be right are repaired.
    """
    spans, repairs = repaired(spans, received_at)
    ordered = in_order(spans)
    if not ordered:
        return Trace(trace_id=trace_id, unread=dict(_unread(spans, ())))
    logs = list(_once_in_order(logs))
    plain = None if logs else plain_trace(ordered)
    nodes, dialects = (plain.nodes, plain.dialects) if plain else _read_spans(ordered, logs, read_span)
    carriers = [*(node.span.attributes for node in nodes), *(log.attributes for log in logs)]
    session_id = naming.of(carriers, None)
    if session_id is not None and any(node.facts.response_id == session_id for node in nodes):
        naming = naming.but_for(node.facts.response_id for node in nodes if node.facts.response_id)
        session_id = naming.of(carriers, None)
    (input_cache or InputCache()).join(session_id or trace_id, nodes)
    facts = [node.facts for node in nodes]
    told = plain and _read_plain(plain)
    found = told or _read_any(nodes, has_session=session_id is not None)
    turns, nodes_of_turns, agents, colleagues, root = found
    # Only after the turns: messages are read if somebody asks for them, and not before.
    unread = _unread(spans, facts, repairs)
    started_at = ordered[0].started_at
    instructions = _instructions(facts)
    outermost = _outermost_first(nodes, turns)
    names = _names(trace_id, agents[:1], outermost, logs, naming, run_naming, unread)
    if names["service_version"] is None:
        names["fingerprint"] = _fingerprint(outermost, has_instructions=instructions is not None)
    trace = Trace(
        trace_id=trace_id,
        agents=agents,
        turns=turns,
        embeddings=embedding_calls(nodes),
        failed_steps=failed_steps(nodes, turns),
        unknown_spans=unknown_spans(nodes),
        available_tools=available_tools(facts, [call for turn in turns for call in turn.tool_calls], colleagues),
        system_instructions=instructions,
        partial=any(map(_is_partial, nodes)),
        dialects=dialects,
        span_count=len(ordered),
        started_at=started_at,
        ended_at=max(started_at, *(span.ended_at for span in ordered)),
        root_span_id=root.id,
        content_at=_uploaded_to(nodes, turns),
        **names,
        **(_joints(turns, nodes_of_turns, colleagues) if nodes_of_turns else {}),
    )
    let_go(nodes)
    return trace


class _ReadTurns(NamedTuple):
    """The turns of a trace, its agents, and `colleagues`: all that a conversation may be handed over to."""

    turns: tuple[Turn, ...]
    nodes: Sequence[TurnNodes]
    agents: tuple[str, ...]
    colleagues: Sequence[str]
    root: Node


def _read_plain(plain: PlainTrace) -> _ReadTurns | None:
    turn = read_plain_turn(plain.turn)
    agents = (plain.turn.root.facts.agent or "",)
    return None if turn is None else _ReadTurns((turn,), [plain.turn], agents, agents, plain.turn.root)


def _read_any(nodes: Sequence[Node], *, has_session: bool) -> _ReadTurns:
    roots = grow(nodes)
    _find_calls(nodes)
    _acquit(nodes)
    tell_agent_runs_apart(roots)
    agents = _agents(roots)
    colleagues = (*agents, *dict.fromkeys(node.facts.hands_over_to for node in nodes if node.facts.hands_over_to))
    nodes_of_turns = turn_nodes(roots, colleagues)
    if not nodes_of_turns:
        read_unknown(roots, has_session=has_session)
        nodes_of_turns = turn_nodes(roots, colleagues)
    turns = tuple(read_turn(root, colleagues, is_last=root is nodes_of_turns[-1]) for root in nodes_of_turns)
    return _ReadTurns(turns, nodes_of_turns, agents, colleagues, roots[0])


def _unread(spans: Iterable[SpanRecord], facts: Iterable[SpanFacts], repairs: int = 0) -> Counter[str]:
    """Count what could not be read: spans without an id, values that were meant to be messages, and times."""
    counts = {
        "span_id": sum([span.span_id is None for span in spans]),
        "message": sum([content.unread for fact in facts for content in (fact.input, fact.output) if content]),
        "time": repairs,
    }
    unread: Counter[str] = Counter()
    unread.update({what: count for what, count in counts.items() if count})
    return unread


def _names(
    trace_id: str,
    outermost: Sequence[str],
    nodes: Sequence[Node],
    logs: Sequence[LogRecord],
    naming: identity.SessionNaming,
    run_naming: run_attributes.RunNaming,
    unread: Counter[str],
) -> dict[str, Any]:
    """Return the names of a trace: its session, user, service, version, environment and run. The first span that tells
    counts; of the version, the first of the `outermost` agent."""
    carriers = [node.span.attributes for node in nodes] + [log.attributes for log in logs]
    # Spans share their resources.
    resources = [*{id(node.span.resource): node.span.resource for node in nodes}.values()]
    service = _first_text(resources, semconv.SERVICE_NAME)
    session_id = naming.of(carriers, service, resources)
    own = [node.span.attributes for node in nodes if node.facts.agent in outermost]
    version = _first_text(own, semconv.GEN_AI_AGENT_VERSION) or _first_text(resources, semconv.SERVICE_VERSION)
    return {
        "session_id": session_id,
        "user_id": identity.user_id(carriers),
        "service": service,
        "service_version": version,
        "service_versions": _service_versions(resources),
        "environment": next(filter(None, map(identity.environment_of, resources)), None),
        "run": run_attributes.run_identity(carriers + resources, run_naming, session=session_id or trace_id),
        "run_outcome": run_attributes.run_outcome(carriers + resources, run_naming, unread),
        "expected_tools": run_attributes.expected_tools(carriers, unread),
        "expected_answer": run_attributes.expected_answer(carriers),
        "unread": dict(unread),
    }


def _read_spans(
    spans: Sequence[SpanRecord], logs: Sequence[LogRecord], read_span: ReadSpan
) -> tuple[list[Node], tuple[str, ...]]:
    """Read each span by itself, with the log records that name it. Return nodes and the names of the dialects."""
    logs_of = _by_span(logs)
    nodes: list[Node] = []
    recognised: set[str] = set()
    for span in spans:
        own = logs_of.get(span.span_id or "", ())
        facts, names = read_span(span, own)
        recognised.update(names)
        nodes.append(Node(span=_with_exceptions(span, own), facts=facts or NOTHING))
    return nodes, tuple(dialect.name for dialect in DIALECTS if dialect.name in recognised)


def _with_exceptions(span: SpanRecord, logs: Iterable[LogRecord]) -> SpanRecord:
    """Return a span with the exceptions that log records tell of, as events."""
    exceptions = [log for log in logs if log.event_name == semconv.GEN_AI_OPERATION_EXCEPTION_EVENT]
    if not exceptions:
        return span
    events = (EventRecord(name=semconv.EXCEPTION_EVENT, time=log.time, attributes=log.attributes) for log in exceptions)
    return replace(span, events=(*span.events, *events))


def _uploaded_to(nodes: Iterable[Node], turns: Sequence[Turn]) -> str | None:
    """Return where the messages of a trace were uploaded to. None if it has messages, or nothing tells."""
    if not turns or (turns[0].input is not None and turns[-1].output is not None):
        return None
    places = (node.span.attributes.get(f"{key}_ref") for node in nodes for key in _UPLOADED)
    return next(filter(None, map(known_text, places)), None)


def _joints(turns: Sequence[Turn], nodes_of_turns: Sequence[TurnNodes], colleagues: Sequence[str]) -> dict[str, Any]:
    """Return what the first and the last turn of a trace tell about the traces before and after it."""
    models = nodes_of_turns[0].models
    sent = first_sent(models)
    earlier = earlier_steps(models, colleagues, turns[0].started_at)
    calls, told_now = told_of(turns, earlier.calls, earlier.now)
    return {
        "told": calls,
        "told_now": told_now,
        "history": history(sent),
        "is_history_begun": begins_with_user(sent),
        "results_alone": earlier.results_alone,
        "continues_turn": earlier.is_continued,
        "turn_goes_on": _goes_on_elsewhere(nodes_of_turns[-1], turns[-1], colleagues),
        "conversation": conversation([node for root in nodes_of_turns for node in root.models]),
    }


def _once_in_order(logs: Iterable[LogRecord]) -> Iterator[LogRecord]:
    """Yield the log records by time, equal ones once."""
    for _, records in groupby(sorted(logs, key=_moment), key=_moment):
        first, *others = records
        if others:
            yield from (record for _, record in sorted({repr(other): other for other in (first, *others)}.items()))
        else:
            yield first


def _moment(log: LogRecord) -> tuple[int, str, str]:
    return log.time, log.span_id or "", log.event_name


def _by_span(logs: Iterable[LogRecord]) -> dict[str, list[LogRecord]]:
    by_span: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for log in logs:
        if log.span_id is not None:
            by_span[log.span_id].append(log)
    return by_span


def _find_calls(nodes: Sequence[Node]) -> None:
    """Decide which spans are model calls: `SpanFacts.is_overwritten` and `may_be_call` leave that to their
    neighbours."""
    for node in nodes:
        if node.facts.is_overwritten:
            within = (inner for child in node.children for inner in child.below() if inner.role is SpanRole.MODEL)
            if len([*islice(within, 2)]) == 2:
                node.facts = replace(node.facts, role=None)
    # The innermost steps first: a step is no call if one of those within it is.
    steps = [node for node in nodes if node.facts.may_be_call and node.role in (None, SpanRole.CHAIN)]
    for step in sorted(steps, key=lambda node: -node.depth):
        if not any(node.role is SpanRole.MODEL for node in step.below()):
            step.facts = replace(step.facts, role=SpanRole.MODEL)


def _acquit(nodes: Sequence[Node]) -> None:
    """Take spans that have their answer for no failures if they only repeat the error of a tool."""
    failed = (node.span for node in nodes if node.role is SpanRole.TOOL and node.span.status == STATUS_ERROR)
    errors = {span.status_message for span in failed} - {""}
    for node in nodes if errors else ():
        if node.role is not SpanRole.TOOL and repeats(node.span, errors) and node.facts.replies:
            node.span = replace(node.span, status=STATUS_OK, status_message="")


def _is_partial(node: Node) -> bool:
    return node.facts.cut or (node.facts is not NOTHING and node.span.dropped_attributes_count > 0)


def _agents(roots: Sequence[Node]) -> tuple[str, ...]:
    """Return the names of the agents that ran, each before those within it; without any, names that other spans
    mention."""
    # In the order of the tree, not of time: the clocks of two services differ.
    facts = [node.facts for root in roots for node in root.below()]
    names = [fact.agent for fact in facts if fact.agent and fact.role is SpanRole.AGENT]
    return tuple(dict.fromkeys(names or [fact.agent for fact in facts if fact.agent]))


def _outermost_first(nodes: Sequence[Node], turns: Iterable[Turn]) -> list[Node]:
    """Return the spans that stand for turns, then the others by depth. If spans disagree, the first is believed."""
    of_turns = {turn.span_id for turn in turns}
    return sorted(nodes, key=lambda node: (node.id not in of_turns, node.depth))


def _goes_on_elsewhere(nodes: TurnNodes, turn: Turn, agents: Sequence[str]) -> bool:
    """Return whether a turn ends in a request for tools that none of its spans executed."""
    if turn.output or turn.error is not None or not nodes.models:
        return False
    asked_at = nodes.models[-1].span.started_at
    was_executed = any(node.span.started_at >= asked_at for node in nodes.tools)
    return not was_executed and bool(tool_requests(nodes.models[-1:], agents))


def _first_text(resources: Iterable[Mapping[str, Json]], key: str) -> str | None:
    return next((name for resource in resources if (name := known_text(resource.get(key)))), None)


def _service_versions(resources: Iterable[Mapping[str, Json]]) -> tuple[str, ...]:
    named = (known_text(resource.get(semconv.SERVICE_VERSION)) for resource in resources)
    return tuple(islice(dict.fromkeys(version for version in named if version), MAX_SERVICE_VERSIONS))


def _instructions(facts: Iterable[SpanFacts]) -> str | None:
    """Return the system instructions of the first span that has any, as an attribute or as the first message."""
    for fact in facts:
        if fact.instructions is not None and (text := _text(decode_structure(fact.instructions))):
            return text
        if fact.role in (SpanRole.MODEL, SpanRole.AGENT) and fact.input:
            message = fact.input.first()
            if message and message.role == SYSTEM and message.text:
                return message.text
    return None


def _fingerprint(nodes: Iterable[Node], *, has_instructions: bool) -> str | None:
    """Return the fingerprint of the agent that comes first: later spans may be of those that it calls."""
    facts = [node.facts for node in nodes]
    tools = next((fact.tool_definitions for fact in facts if fact.tool_definitions is not None), None)
    names = next((fact.tool_names for fact in facts if fact.tool_names), ())
    return fingerprint(_instructions(facts) if has_instructions else None, tools, names)


def _text(instructions: Json) -> str | None:
    items = instructions if isinstance(instructions, list) else [instructions]
    texts = [known_text(item.get("content") if isinstance(item, dict) else item) for item in items]
    return "\n".join(text for text in texts if text) or None
