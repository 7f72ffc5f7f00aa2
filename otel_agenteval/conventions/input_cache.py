"""A cache of the inputs of model calls: a model is mostly sent all that it was sent before, and more."""

import sys
from collections.abc import Iterable
from typing import Final

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.dialect import SpanRole
from otel_agenteval.conventions.tree import Node
from otel_agenteval.internal.lru import LruMap

BEGINNING: Final = 200
"""Characters at the beginning of an input that tell the agents of a session apart: each has its own instructions."""
EXPANSION: Final = 6
"""Bytes of memory for a character of an input: the text, its decoded values and the messages. It takes 3 to 6."""


class InputCache:
    """Keeps the newest input of each conversation, with the messages that were read of it, in `max_bytes` of memory.

    A single trace needs no bound: its inputs are held anyway. Not thread-safe.
    """

    def __init__(self, max_bytes: int = sys.maxsize) -> None:
        self._newest: LruMap[tuple[str, str], Content] = LruMap(max_bytes, _size)

    def join(self, session_id: str, nodes: Iterable[Node]) -> None:
        """Let the input of each model call take over what was read of the input before it in the session."""
        for node in nodes:
            content = node.facts.input
            if node.role is not SpanRole.MODEL or content is None or content.array is None or content.cut:
                continue
            key = session_id, content.array[:BEGINNING]
            if (before := self._newest.get(key)) is not None:
                content.go_on_from(before)
            self._newest.put(key, content)


def _size(content: Content) -> int:
    return EXPANSION * len(content.array or "")
