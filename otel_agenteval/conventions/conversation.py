"""Read from the messages of a trace's model calls what was said before it began, and how it is joined to the traces
before and after it.

In a loop around a model's API each call is sent all that was said so far: the words up to a reply are the same in the
call that gave it and in the next one. Instructions, results of tools and texts beside requests are left out, as
programs change or drop them between two calls.
"""

import json
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.conversation_digest import ConversationDigest, digest_of
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, USER, ChatMessage, ToolRequest, ToolResponse
from otel_agenteval.conventions.span_errors import span_error
from otel_agenteval.conventions.steering import is_steering
from otel_agenteval.conventions.tool_calls import answered, requested
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import ConversationDigests, Json, ToolCall


def history(models: Sequence[Node]) -> tuple[Json, ...]:
    """Return texts and tools' results that the first of the model calls was sent, oldest first, the question included.
    Empty where it was sent no reply or result of before: some services keep the conversation on their side."""
    messages = _first_sent(models)
    if all(message.role == USER for message in messages):
        return ()
    return tuple(said for message in messages for said in _said(message))


def begins_with_user(models: Sequence[Node]) -> bool:
    """Return whether what the first call was sent begins with the user's words, and is not the newest messages only."""
    messages = _first_sent(models)
    return bool(messages) and messages[0].begins_turn


def _first_sent(models: Sequence[Node]) -> list[ChatMessage]:
    first = next((node.facts.input for node in models if node.facts.input), None)
    return [message for message in first.messages if message.role != SYSTEM] if first else []


def _said(message: ChatMessage) -> Iterator[Json]:
    yield from message.texts
    for response in message.responses:
        yield response.result


MAX_MESSAGES: Final = 2000
"""Messages of a conversation that is recognised; a longer one is not."""


class EarlierSteps(NamedTuple):
    """The steps of a turn in traces before this one, as its first model call here was told of them.

    `calls` are the calls of tools, oldest first. The results of the last `now` of them are new: no earlier model call
    was told of them. `is_continued`: the model goes on from results, not from what a user said. `results_alone` as in
    `Trace`.
    """

    calls: tuple[ToolCall, ...] = ()
    now: int = 0
    results_alone: tuple[ToolCall, ...] = ()
    is_continued: bool = False


def conversation(models: Sequence[Node]) -> ConversationDigests | None:
    """Return the digests that join the trace of these model calls, in order, to others; None where none is known."""
    if not models:
        return None
    first, last = models[0].facts, models[-1].facts
    begins, follows, words = _beginning(first)
    said = reply = calls = None
    if span_error(models[-1].span) is None:
        if last is not first:
            _, _, words = _beginning(last)
        said, calls = _ending(last, words)
        reply = digest_of("reply", last.response_id) if last.response_id else None
    known = ConversationDigests(begins=begins, follows=follows, said=said, reply=reply, calls=calls)
    return known if known != ConversationDigests() else None


def earlier_steps(models: Sequence[Node], agents: Sequence[str], began_at: int) -> EarlierSteps:
    """Return the steps that a turn's first model call was told of; what the trace has of the turn began at
    `began_at`."""
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
        # Before the turn, and before one another; those of one reply at the same time.
        time = began_at - 2 * (len(steps) - at)
        calls += [_call(each, models[0], time) for each in step.requests if not is_steering(each, agents)]
        for response in step.responses:
            _answer(calls, newest, response, answers)
    return EarlierSteps(tuple(calls), len(calls) - newest, is_continued=not was_reply)


def _alone(steps: Sequence[ChatMessage], node: Node, began_at: int) -> tuple[ToolCall, ...]:
    responses = [each for step in steps for each in step.responses if each.call_id]
    return tuple(
        answered(_call(ToolRequest(name="", call_id=each.call_id), node, began_at - 2), each) for each in responses
    )


def _call(request: ToolRequest, node: Node, time: int) -> ToolCall:
    return replace(requested(request, node), started_at=time, ended_at=time + 1)


def _answer(calls: list[ToolCall], first: int, response: ToolResponse, answers: Set[str | None]) -> None:
    """Complete the call, from the `first` on, that `response` answers: by id, else the next that no other answer
    names."""
    waiting = [at for at in range(first, len(calls)) if calls[at].result is None and calls[at].error is None]
    named = [at for at in range(len(calls)) if response.call_id and calls[at].call_id == response.call_id]
    others = [at for at in waiting if calls[at].call_id is None or calls[at].call_id not in answers]
    at = next((at for at in (named or others) if at in waiting), None)
    if at is not None:
        calls[at] = answered(calls[at], response)


def _beginning(facts: SpanFacts) -> tuple[bytes | None, bytes | None, ConversationDigest | None]:
    """Return the digests of all that a model call is sent, if it is the first of a conversation, and of what it goes on
    from, if it is not; and the words that it is sent, None where they do not begin with the conversation."""
    messages = _messages(facts.input)
    if facts.previous_response_id is not None or messages is None or facts.input is None:
        reply = facts.previous_response_id
        return None, digest_of("reply", reply) if reply else None, None
    replies = (at for at in range(len(messages) - 1, 0, -1) if messages[at].role != ASSISTANT)
    end = next((at for at in replies if messages[at - 1].role == ASSISTANT), 0)
    begun, words = _spoken(facts.input, end)
    for message in messages[begun:end]:
        words.add(message)
    follows = words.digest() if end else None
    for message in messages[end:]:
        words.add(message)
    facts.input.decoded.spoken = len(messages), words.copy()
    if end:
        return None, follows, words
    # Some services keep the conversation: results without the calls that they answer go on from those.
    if answers := [each for message in messages for each in message.responses]:
        return None, _calls(each.call_id for each in answers), None
    # The reply goes on with words of its own that were put before it.
    return (words.digest() if messages[-1].role != ASSISTANT else None), None, words


def _spoken(content: Content, end: int) -> tuple[int, ConversationDigest]:
    """Return the words of the first messages, at most `end` of them, as far as they are known, and their number."""
    known = content.decoded.spoken
    return (known[0], known[1].copy()) if known is not None and known[0] <= end else (0, ConversationDigest())


def _ending(facts: SpanFacts, words: ConversationDigest | None) -> tuple[bytes | None, bytes | None]:
    """Return the digests of all that is said with the call's reply, and of the calls that it asks for; `words` are
    those that it is sent, None where they are not known."""
    messages = _messages(facts.output) or []
    calls = _calls(request.call_id for message in messages for request in message.requests)
    is_reply = any(message.texts or message.requests for message in messages)
    if words is None or not is_reply:
        return None, calls
    for message in messages:
        words.add(message)
    return words.digest(), calls


def _messages(content: Content | None) -> list[ChatMessage] | None:
    """Return the messages without instructions; None where they are not known as a whole."""
    if content is None or content.cut:
        return None
    messages = [message for message in content.messages if message.role != SYSTEM]
    return messages if 0 < len(messages) <= MAX_MESSAGES else None


def _calls(ids: Iterable[str | None]) -> bytes | None:
    known = sorted({each for each in ids if each})
    return digest_of("calls", json.dumps(known)) if known else None
