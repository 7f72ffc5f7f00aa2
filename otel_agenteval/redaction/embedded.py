"""JSON that stands inside a text, among words."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from otel_agenteval.model import Json

ATTEMPTS: Final = 32
"""Places of a text at which JSON may begin that are tried, the first ones: the text may be hostile."""
_BEGIN: Final = re.compile(r'\{\s*"|\[\s*[\[{"]')


class Piece(NamedTuple):
    """An object or a list, with its place in the text."""

    start: int
    end: int
    value: Json


def pieces(text: str, merged: Callable[[Iterable[tuple[str, Any]]], dict[str, Any]]) -> Iterator[Piece]:
    """Yield the objects and lists that JSON inside a text holds, in order. `merged` makes an object of its pairs."""
    decoder, end = json.JSONDecoder(object_pairs_hook=merged), 0
    for _ in range(ATTEMPTS):
        begin = _BEGIN.search(text, end)
        if begin is None:
            return
        try:
            value, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            end = begin.start() + 1
        else:
            yield Piece(begin.start(), end, value)
