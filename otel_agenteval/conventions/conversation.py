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
    """Return the digests that join the trace of these model calls, given in order, to others. None where none is
    known."""
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


def _beginning(facts: SpanFacts) -> tuple[bytes | None, bytes | None, WordsDigest | None]:
    """Return `begins` and `follows` of a trace with this first model call, and a digest of the words that it was sent.

    The digest is None where the call was not sent the conversation from its beginning.
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
    if answers := [each for message in messages for each in message.responses]:
        return None, _calls(each.call_id for each in answers), None
    # If the last message is the assistant's, it is the beginning of the reply, and the reply repeats it.
    return (words.digest() if messages[-1].role != ASSISTANT else None), None, words


def _spoken(content: Content, end: int) -> tuple[int, WordsDigest]:
    """Return how many of the first `end` messages were digested before, and their digest."""
    known = content.decoded.spoken
    return (known[0], known[1].copy()) if known is not None and known[0] <= end else (0, WordsDigest())


def _ending(facts: SpanFacts, words: WordsDigest | None) -> tuple[bytes | None, bytes | None]:
    """Return `said` and `calls` of a trace that ends with this model call. `words` digests what the call was sent; None
    where that is not known."""
    messages = _messages(facts.output) or []
    calls = _calls(request.call_id for message in messages for request in message.requests)
    is_reply = any(message.texts or message.requests for message in messages)
    if words is None or not is_reply:
        return None, calls
    for message in messages:
        words.add(message)
    return words.digest(), calls


def _messages(content: Content | None) -> list[ChatMessage] | None:
    """Return the messages without instructions; None where some may be missing, or there are too many."""
    if content is None or content.cut:
        return None
    messages = [message for message in content.messages if message.role != SYSTEM]
    return messages if 0 < len(messages) <= MAX_MESSAGES else None


def _calls(ids: Iterable[str | None]) -> bytes | None:
    known = sorted({each for each in ids if each})
    return digest_of("calls", json.dumps(known)) if known else None
