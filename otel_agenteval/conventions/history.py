"""Read what was said and done before a trace began, as its first model call was sent it."""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, USER, ChatMessage, ToolRequest, ToolResponse
from otel_agenteval.conventions.steering import is_steering
from otel_agenteval.conventions.tool_calls import answered, requested
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import Json, ToolCall


def history(messages: Sequence[ChatMessage]) -> tuple[Json, ...]:
    """Return the texts and results of tools in what the first model call was sent, oldest first, with the question.

    Empty if no reply and no result is among them: some services keep the conversation on their side.
    """
    if all([message.role == USER for message in messages]):
        return ()
    said: list[Json] = []
    for message in messages:
        said += message.texts
        if message.responses:
            said += [response.result for response in message.responses]
    return tuple(said)


def begins_with_user(messages: Sequence[ChatMessage]) -> bool:
    """Return whether the first model call was sent the conversation from the user's first words on."""
    return bool(messages) and messages[0].begins_turn


def first_sent(models: Sequence[Node]) -> list[ChatMessage]:
    """Return what the first model call was sent, without instructions."""
    first = next((node.facts.input for node in models if node.facts.input), None)
    return [message for message in first.messages if message.role != SYSTEM] if first else []


class EarlierSteps(NamedTuple):
    """The steps of a turn in earlier traces, as its first model call in this trace was sent them.

    `calls` are the calls of tools, oldest first. No earlier model call was sent the results of the last `now` of them.
    `results_alone` as in `Trace`. `is_continued`: the model goes on from results, and not from a user's words.
    """

    calls: tuple[ToolCall, ...] = ()
    now: int = 0
    results_alone: tuple[ToolCall, ...] = ()
    is_continued: bool = False


def earlier_steps(models: Sequence[Node], agents: Sequence[str], began_at: int) -> EarlierSteps:
    """Return the steps that the first model call of a turn was sent. `began_at` is when the turn began in this
    trace."""
    facts = models[0].facts if models else None
    steps = facts.steps if facts and facts.input and not facts.input.cut else []
    if not steps or not any(step.responses for step in steps):
        return EarlierSteps()
    if not any(step.requests for step in steps):
        return EarlierSteps(results_alone=_alone(steps, models[0], began_at), is_continued=steps[-1].role != ASSISTANT)
    answers = {response.call_id for step in steps for response in step.responses}
    calls: list[ToolCall] = []
    newest, was_reply = 0, False
    for at, step in enumerate(steps):
        # Replies in a row are parts of one.
        if step.role == ASSISTANT and not was_reply:
            newest = len(calls)
        was_reply = step.role == ASSISTANT
        # Made-up times: before the turn, in order, and the same for calls of one reply.
        time = began_at - 2 * (len(steps) - at)
        calls += [_call(request, models[0], time) for request in step.requests if not is_steering(request, agents)]
        for response in step.responses:
            _answer(calls, newest, response, answers)
    return EarlierSteps(tuple(calls), len(calls) - newest, is_continued=not was_reply)


def _alone(steps: Sequence[ChatMessage], node: Node, began_at: int) -> tuple[ToolCall, ...]:
    responses = [response for step in steps for response in step.responses if response.call_id]
    return tuple(
        answered(_call(ToolRequest(name="", call_id=response.call_id), node, began_at - 2), response)
        for response in responses
    )


def _call(request: ToolRequest, node: Node, time: int) -> ToolCall:
    return replace(requested(request, node), started_at=time, ended_at=time + 1)


def _answer(calls: list[ToolCall], first: int, response: ToolResponse, answers: Set[str | None]) -> None:
    """Complete the call that `response` answers: the one with its id, else the next one, from the `first` on, that no
    other answer names."""
    waiting = [at for at in range(first, len(calls)) if calls[at].result is None and calls[at].error is None]
    named = [at for at in range(len(calls)) if response.call_id and calls[at].call_id == response.call_id]
    others = [at for at in waiting if calls[at].call_id is None or calls[at].call_id not in answers]
    at = next((at for at in (named or others) if at in waiting), None)
    if at is not None:
        calls[at] = answered(calls[at], response)
