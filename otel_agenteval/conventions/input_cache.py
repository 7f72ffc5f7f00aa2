"""The recordings that were read last: what a model is sent goes on from what it was sent before."""

import sys
from collections.abc import Iterable
from typing import Final

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.dialect import SpanRole
from otel_agenteval.conventions.tree import Node
from otel_agenteval.lru import LruMap

BEGINNING: Final = 200
"""Characters by which recordings of one session are told apart: its agents have instructions of their own."""
EXPANSION: Final = 6
"""Bytes of memory that a character takes with itself, decoded and read: three to six, by the texts."""


class InputCache:
    """The newest recording of each conversation, with all that was made of it, in `max_bytes` of memory. A single trace
    needs no bound: its recordings are held anyway. Not thread-safe."""

    def __init__(self, max_bytes: int = sys.maxsize) -> None:
        self._newest: LruMap[tuple[str, str], Content] = LruMap(max_bytes, _size)

    def join(self, session_id: str, nodes: Iterable[Node]) -> None:
        """Let the inputs of these model calls of a session go on from those before them."""
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
