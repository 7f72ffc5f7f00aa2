"""Read how a trace is joined to the traces before and after it, from the messages of its model calls.

In a loop around a model's API, each call is sent all that was said so far. So the words up to a reply are the same in
the call that gave the reply and in the next call. Instructions, results of tools and texts beside requests are left
out, because programs change or drop them between two calls.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, ChatMessage
from otel_agenteval.conventions.span_errors import span_error
from otel_agenteval.conventions.tree import Node
from otel_agenteval.conventions.words_digest import WordsDigest, digest_of
from otel_agenteval.model import ConversationDigests

MAX_MESSAGES: Final = 2000
"""Messages of a conversation. A longer one is not recognised."""


def conversation(models: Sequence[Node]) -> ConversationDigests | None:
    """Return the digests that join the trace of these model calls, given in order, to others. None if none is
    known."""
    if not models:
        return None
    first, last = models[0].facts, models[-1].facts
    begins, follows, words = _beginning(first)
    answer = reply = calls = None
    if span_error(models[-1].span) is None:
        if last is not first:
            _, _, words = _beginning(last)
        answer, calls = _ending(last, words)
        reply = digest_of("reply", last.response_id) if last.response_id else None
    digests = ConversationDigests(begins=begins, follows=follows, said=answer, reply=reply, calls=calls)
    return digests if digests != ConversationDigests() else None


def _beginning(facts: SpanFacts) -> tuple[bytes | None, bytes | None, WordsDigest | None]:
    """Return `begins` and `follows` of a trace with this first model call, and a digest of the words that it was sent.

    The digest is None if the call was not sent the conversation from its beginning.
    """
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
    # A service that keeps the conversation is sent results without the calls that they answer.
    if answers := [response for message in messages for response in message.responses]:
        return None, _calls(answer.call_id for answer in answers), None
    # If the last message is the assistant's, it is the beginning of the reply, and the reply repeats it.
    return (words.digest() if messages[-1].role != ASSISTANT else None), None, words


def _spoken(content: Content, end: int) -> tuple[int, WordsDigest]:
    """Return how many of the first `end` messages were digested before, and their digest."""
    messages = content.decoded.spoken
    return (messages[0], messages[1].copy()) if messages is not None and messages[0] <= end else (0, WordsDigest())


def _ending(facts: SpanFacts, words: WordsDigest | None) -> tuple[bytes | None, bytes | None]:
    """Return the digests `said` and `calls` of a trace that ends with this model call. `words` digests what the call
    was sent; None if that is not known."""
    messages = _messages(facts.output) or []
    calls = _calls(request.call_id for message in messages for request in message.requests)
    is_reply = any(message.texts or message.requests for message in messages)
    if words is None or not is_reply:
        return None, calls
    for message in messages:
        words.add(message)
    return words.digest(), calls


def _messages(content: Content | None) -> list[ChatMessage] | None:
    """Return the messages without instructions; None if some may be missing, or there are too many."""
    if content is None or content.cut:
        return None
    messages = [message for message in content.messages if message.role != SYSTEM]
    return messages if 0 < len(messages) <= MAX_MESSAGES else None


def _calls(ids: Iterable[str | None]) -> bytes | None:
    known_ids = sorted({call_id for call_id in ids if call_id})
    return digest_of("calls", json.dumps(known_ids)) if known_ids else None
