"""Replies that were streamed, where an instrumentation (Google ADK) wrote down every chunk as a message of its own.

Chunks have an empty `finish_reason`. The whole reply follows as the last message, or only its end.
"""

from collections.abc import Sequence

from otel_agenteval.conventions.messages import Item, Message, read_message

_REASON = "finish_reason"


def joined_chunks(items: Sequence[Item]) -> Sequence[Item]:
    """Return a reply's messages without chunks: the reply that they make, once. Any other messages as they are."""
    chunks = [item for item in items if isinstance(item, dict) and item.get(_REASON) == ""]
    if not chunks:
        return items
    others = [item for item in items if not isinstance(item, dict) or item.get(_REASON) != ""]
    read = [message for each in chunks if (message := read_message(each))]
    streamed = "".join(text for message in read for text in message.texts)
    end = (others[-1] if isinstance(others[-1], Message) else read_message(others[-1])) if others else None
    if end is None:
        return [*others, Message(role=read[0].role, texts=[streamed])] if streamed else others
    if streamed and not "".join(end.texts).startswith(streamed):
        end.texts = ["".join((streamed, *end.texts))]
    return [*others[:-1], end]
