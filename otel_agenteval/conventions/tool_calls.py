"""The calls of the user's tools in a turn.

A model's request is joined with the span that executed it: by call id, else by name and arguments, else by name. A
request without such a span is a call if no span of the turn executed its tool. Tools by which a framework steers itself
are not the user's (`steering`).
"""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypedDict

from otel_agenteval.conventions.decoding import are_positional
from otel_agenteval.conventions.messages import ToolRequest, ToolResponse
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.span_errors import error_type, outcome_by_span
from otel_agenteval.conventions.steering import is_steering, may_steer, transfer_target
from otel_agenteval.conventions.tool_definitions import OfferedTools
from otel_agenteval.conventions.tree import Node
from otel_agenteval.detectors.call_outcomes import OutcomeReading, outcome_of
from otel_agenteval.detectors.tool_names import HANDS_OVER, tool_slug
from otel_agenteval.model import CallOutcome, Json, ToolCall


def tool_calls(models: Sequence[Node], spans: Sequence[Node], agents: Sequence[str]) -> tuple[ToolCall, ...]:
    """Return the calls of a turn by the time of their request, else of their start. `models` and `spans` are given by
    start time."""
    requests = tool_requests(models, agents)
    offered = OfferedTools()
    executions = [_execution(node) for node in spans if not is_steering(_request(node), agents)]
    earlier = _asked_earlier(executions, models)
    own = [call for call in executions if call.span_id not in earlier]
    matches = _join([request for _, request in requests], own)
    executed = {tool_slug(call.name) for call in own}
    timed: list[tuple[int, ToolCall]] = []
    for index, (node, request) in enumerate(requests):
        if index in matches:
            call = _completed(matches[index], request)
        elif tool_slug(request.name) not in executed:
            call = requested(request, node)
        else:
            continue
        call = replace(call, is_offered=offered.by(node, request.name), asked_by=_asking(node))
        timed.append((node.span.started_at, call))
    joined = {id(call) for call in matches.values()}
    timed += [(call.started_at or 0, call) for call in executions if id(call) not in joined]
    timed.sort(key=lambda entry: entry[0])
    return tuple(_with_failures(_with_results([call for _, call in timed], models), models))


def plain_calls(models: Sequence[Node], spans: Sequence[Node]) -> tuple[ToolCall, ...] | None:
    """Return what `tool_calls` returns of a plain trace, if each span is the execution of one request, and the other
    way round."""
    executions = {node.facts.call_id: node for node in spans}
    requests = [(node, request) for node in models for request in node.facts.requests]
    if len(executions) < len(spans) or len(requests) != len(spans) or not _are_answered(models, spans):
        return None
    offered = OfferedTools()
    calls = []
    for asking, request in requests:
        node = executions.pop(request.call_id, None)
        if node is None or may_steer(request.name):
            return None
        facts = node.facts
        arguments, result = facts.arguments, facts.result
        if facts.tool != request.name or result is None or not isinstance(arguments, dict):
            return None
        if arguments != request.arguments or are_positional(arguments):
            return None
        calls.append(
            ToolCall(
                name=request.name,
                arguments=arguments,
                result=result,
                **_outcome(None, outcome_of(request.name, arguments, result), result),
                is_offered=offered.by(asking, request.name),
                asked_by=asking.id,
                call_id=request.call_id,
                span_id=node.id,
                agent=node.agent,
                agent_run=node.agent_run,
                started_at=node.span.started_at,
                ended_at=node.span.ended_at,
            )
        )
    return tuple(calls)


def _are_answered(models: Sequence[Node], spans: Sequence[Node]) -> bool:
    """Return whether the calls of `spans` were asked for here, and no message says more of them than their spans."""
    if not spans:
        return True
    begun = models[0].span.started_at
    return (
        all(node.span.started_at >= begun for node in spans)
        and not any(message.responses for node in models for message in node.facts.replies)
        and not any(response.failed for response in models[-1].facts.step_results)
    )


def handovers(models: Sequence[Node], spans: Sequence[Node], agents: Sequence[str]) -> tuple[ToolCall, ...]:
    """Return the calls of a turn by which one agent hands over to another one: those that have spans, else those that
    models ask for."""
    executions = [_execution(node) for node in spans if _hands_over(_request(node), agents)]
    executions += [
        replace(_execution(node), name=f"{HANDS_OVER}{node.facts.hands_over_to}", arguments={}, result=None)
        for node in spans
        if node.facts.hands_over_to is not None
    ]
    return tuple(executions) or tuple(
        replace(requested(request, node), asked_by=node.id)
        for node in models
        for request in node.facts.requests
        if _hands_over(request, agents)
    )


def _hands_over(request: ToolRequest, agents: Sequence[str]) -> bool:
    return transfer_target(request, agents) is not None


def tool_requests(models: Sequence[Node], agents: Sequence[str]) -> list[tuple[Node, ToolRequest]]:
    """Return the tool requests of model calls, each with its model call. Equal requests with the same call id are one.

    Some servers make ids of the tool's name. Such an id comes back in other requests, and is dropped.
    """
    requests: list[tuple[Node, ToolRequest]] = []
    first: dict[str, ToolRequest] = {}
    recurring: set[str] = set()
    for node in models:
        for request in node.facts.requests:
            if request.name in (node.facts.answer_tools or ()) or is_steering(request, agents):
                continue
            if request.call_id in first:
                if first[request.call_id] == request and not _is_remembered(request, node):
                    continue
                recurring.add(request.call_id)
            elif request.call_id:
                first[request.call_id] = request
            requests.append((node, request))
    return [
        (node, replace(request, call_id=None) if request.call_id in recurring else request)
        for node, request in requests
    ]


def requested(request: ToolRequest, node: Node) -> ToolCall:
    """Return the call that the model call `node` asks for, with what the request tells."""
    return ToolCall(
        name=request.name,
        arguments=request.arguments,
        call_id=request.call_id,
        agent=node.agent,
        agent_run=node.agent_run,
    )


def _asking(node: Node) -> str | None:
    """Return the span id of a model call with one reply; None if results in its output part it into several."""
    return None if any(message.responses for message in node.facts.replies) else node.id


def _is_remembered(request: ToolRequest, node: Node) -> bool:
    """Return whether the model was sent a request with the id of `request` before it asked: then it asks another
    time."""
    return any(other.call_id == request.call_id for step in node.facts.steps for other in step.requests)


def _asked_earlier(executions: Sequence[ToolCall], models: Sequence[Node]) -> set[str | None]:
    """Return the span ids of calls that an earlier trace asked for: the first model call here was sent their
    results."""
    if not models or not executions:
        return set()
    call_ids = {result.call_id for result in models[0].facts.step_results}
    begun = models[0].span.started_at
    before = (call for call in executions if call.started_at is not None and call.started_at < begun)
    return {call.span_id for call in before if call.call_id and call.call_id in call_ids}


def _request(node: Node) -> ToolRequest:
    facts = node.facts
    return ToolRequest(name=facts.tool or node.span.name, arguments=facts.arguments, call_id=facts.call_id)


def _execution(node: Node) -> ToolCall:
    facts = node.facts
    name = facts.tool or node.span.name
    arguments = _named(facts.arguments)
    own = outcome_by_span(node.span)
    if own is None and facts.error:
        own = OutcomeReading(CallOutcome.FAILED, "status", facts.error)
    if own is None and facts.result is None and facts.is_success:
        own = OutcomeReading(CallOutcome.WORKED, "status")
    read = outcome_of(name, arguments, facts.result) if own is None or own.words in _SAYS_NOTHING else None
    return ToolCall(
        name=name,
        arguments=arguments,
        result=facts.result,
        **_outcome(own, read, facts.result),
        error_type=error_type(node.span),
        call_id=facts.call_id,
        span_id=node.id,
        agent=node.agent,
        agent_run=node.agent_run,
        started_at=node.span.started_at,
        ended_at=node.span.ended_at,
    )


_SAYS_NOTHING = ("error", "_OTHER", "Error running tool", "Error running tool (non-fatal)")
"""Texts of an error whose words were not recorded; the last two are the OpenAI Agents SDK's."""


_MISSING = object()


class _Outcome(TypedDict):
    outcome: CallOutcome
    told_by: str | None
    error: str | None
    is_error_read: bool


def _outcome(own: OutcomeReading | None, read: OutcomeReading | None, result: Json) -> _Outcome:
    """Return what came of a call: what its span or message says of itself, else what its result says. If the call
    failed by itself without words, the result has them."""
    reading = own or read
    if reading is None:
        return {"outcome": CallOutcome.UNKNOWN, "told_by": None, "error": None, "is_error_read": False}
    error = reading.error
    if own is not None and error in _SAYS_NOTHING:
        text = result if isinstance(result, str) else read and read.outcome is CallOutcome.FAILED and read.words
        error = text or error
    return {
        "outcome": reading.outcome,
        "told_by": reading.told_by,
        "error": error,
        "is_error_read": own is None and error is not None,
    }


def _named(recorded: Json) -> Json:
    """Return the arguments in the repr of a Python dictionary; any other arguments as they are."""
    if isinstance(recorded, str) and recorded.startswith("{'"):
        with suppress(ValueError):
            return decode_repr(recorded)
    return recorded


def _join(requests: Sequence[ToolRequest], executions: Sequence[ToolCall]) -> dict[int, ToolCall]:
    """Return the execution of each request, by the index of the request."""
    matches: dict[int, ToolCall] = {}
    free = list(executions)
    for key in _JOINED_BY:
        if len(matches) == len(requests):
            break
        queues: dict[str, deque[ToolCall]] = defaultdict(deque)
        for call in free:
            queues[key(call)].append(call)
        for index, request in enumerate(requests):
            if index not in matches and (queue := queues.get(key(request))):
                matches[index] = queue.popleft()
        joined = {id(call) for call in matches.values()}
        free = [call for call in executions if id(call) not in joined]
    return matches


def _is_part(request: dict[str, Json], arguments: dict[str, Json]) -> bool:
    """Return whether all that was asked for is among the arguments, and more is."""
    return len(request) < len(arguments) and all(
        arguments.get(name, _MISSING) == value for name, value in request.items()
    )


def _values(arguments: Json) -> list[str]:
    """Return the values of arguments, for calls that are recorded without their names."""
    return sorted(map(str, arguments.values())) if isinstance(arguments, dict) else [str(arguments)]


# Made once: `json.dumps` makes one for each call.
_json = json.JSONEncoder(sort_keys=True).encode
_JOINED_BY: tuple[Callable[[ToolRequest | ToolCall], str], ...] = (
    # A request or call without an id gets a key that equals no other.
    lambda call: call.call_id or f"without id {id(call)}",
    lambda call: _json([tool_slug(call.name), call.arguments]),
    lambda call: _json([tool_slug(call.name), _values(call.arguments)]),
    lambda call: tool_slug(call.name),
)


def _completed(call: ToolCall, request: ToolRequest) -> ToolCall:
    """Complete an execution from its request. Arguments that cannot be read, or have no names, are replaced by those of
    the request."""
    arguments = request.arguments
    if (call.name, call.arguments, call.call_id) == (request.name, arguments, request.call_id):
        return call
    is_bare = isinstance(arguments, dict) and [str(value) for value in arguments.values()] == [call.arguments]
    # An object that cannot be read: the repr of a program's own, or JSON that was cut.
    is_unread = isinstance(arguments, dict) and isinstance(call.arguments, str) and call.arguments.startswith("{")
    is_nameless = call.arguments is None or are_positional(call.arguments) or is_bare or is_unread
    # Defaults and what a framework adds: the model asked for less.
    is_more = isinstance(arguments, dict) and isinstance(call.arguments, dict) and _is_part(arguments, call.arguments)
    return replace(
        call,
        name=request.name if tool_slug(request.name) == tool_slug(call.name) else call.name,
        arguments=request.arguments if is_nameless or is_more else call.arguments,
        call_id=call.call_id or request.call_id,
    )


def _with_results(calls: list[ToolCall], models: Sequence[Node]) -> list[ToolCall]:
    """Return the calls with results that later model calls were sent, if their spans have none."""
    open_calls = [index for index, call in enumerate(calls) if call.result is None and call.error is None]
    if not open_calls:
        return calls
    by_id, in_order = _responses(models, calls)
    nameless = [index for index in open_calls if calls[index].call_id not in by_id]
    answers = dict(zip(nameless, in_order, strict=True)) if len(nameless) == len(in_order) else {}
    for index in open_calls:
        response = by_id.get(calls[index].call_id or "") or answers.get(index)
        if response is not None:
            calls[index] = answered(calls[index], response)
    return calls


def answered(call: ToolCall, response: ToolResponse) -> ToolCall:
    """Return a call with the response of its tool."""
    read = outcome_of(call.name, call.arguments, response.result)
    own = None
    if response.failed:
        failed = read.outcome is CallOutcome.FAILED
        own = OutcomeReading(CallOutcome.FAILED, "field isError", read.words if failed else _words(response))
    return replace(call, result=response.result, **_outcome(own, read, response.result))


def _with_failures(calls: list[ToolCall], models: Sequence[Node]) -> list[ToolCall]:
    """Return the calls with errors that the last model call was sent, if their spans ended well."""
    responses = models[-1].facts.step_results if models else []
    if not any(response.failed for response in responses):
        return calls
    # An id that comes back does not say which of its calls failed.
    times = Counter(response.call_id for response in responses)
    failed = {
        response.call_id: response
        for response in responses
        if response.failed and response.call_id and times[response.call_id] == 1
    }
    return [
        replace(call, error=_words(failed[call.call_id]), outcome=CallOutcome.FAILED, told_by="field isError")
        if call.error is None and call.call_id in failed
        else call
        for call in calls
    ]


def _words(failed: ToolResponse) -> str:
    return failed.result if isinstance(failed.result, str) else "error"


def _responses(models: Sequence[Node], calls: Sequence[ToolCall]) -> tuple[dict[str, ToolResponse], list[ToolResponse]]:
    """Return the tool responses that model calls were sent: by the ids of `calls`, and in order those of this turn that
    have none of these ids."""
    wanted = Counter(call.call_id for call in calls if call.call_id)
    # An id that several calls of this turn have does not say which of them a response answers.
    missing = {call_id for call_id, times in wanted.items() if times == 1}
    by_id: dict[str, ToolResponse] = {}
    in_order: list[ToolResponse] = []
    # Backwards, because the last input usually holds all responses. A response before the request of its call cannot
    # answer it.
    for node in reversed(models):
        missing -= {request.call_id for request in node.facts.requests}
        if node.facts.input is None:
            continue
        steps = node.facts.step_results
        history = [response for message in node.facts.input.messages for response in message.responses]
        # An id may come back in a session. In the steps of this turn it means the call of this turn, so they go first.
        for responses in (steps, history):
            times = Counter(response.call_id for response in responses)
            for response in responses:
                if response.call_id in missing and times[response.call_id] == 1:
                    missing.discard(response.call_id)
                    by_id[response.call_id] = response
        in_order = in_order or [step for step in steps if step.call_id not in wanted]
        if not missing:
            break
    earlier = [result for result in models[0].facts.step_results if result.call_id not in wanted] if models else []
    return by_id, in_order[len(earlier) :] if in_order[: len(earlier)] == earlier else in_order
