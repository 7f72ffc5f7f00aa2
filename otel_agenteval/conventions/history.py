"""Read what was said before a trace began from what its first model call was sent."""

from collections.abc import Iterator, Sequence

from otel_agenteval.conventions.messages import SYSTEM, USER, Message
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import Json


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


def _first_sent(models: Sequence[Node]) -> list[Message]:
    first = next((node.facts.input for node in models if node.facts.input), None)
    return [message for message in first.messages if message.role != SYSTEM] if first else []


def _said(message: Message) -> Iterator[Json]:
    yield from message.texts
    for response in message.responses:
        yield response.result
