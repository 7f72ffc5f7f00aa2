"""What had been said before a trace began, by what its first model call was sent."""

from collections.abc import Iterator, Sequence

from otel_agenteval.conventions.messages import SYSTEM, USER, Message
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import Json


def history(models: Sequence[Node]) -> tuple[Json, ...]:
    """Texts and tools' results that the first of the model calls was sent, oldest first, the question included.

    Instructions and arguments of calls are left out. Empty where it was sent no reply or result of before: whether
    there was any is not known then, for some services keep the conversation on their side.
    """
    first = next((node.facts.input for node in models if node.facts and node.facts.input), None)
    if first is None or all(message.role in (SYSTEM, USER) for message in first.messages):
        return ()
    return tuple(said for message in first.messages if message.role != SYSTEM for said in _said(message))


def _said(message: Message) -> Iterator[Json]:
    yield from message.texts
    for response in message.responses:
        yield response.result
