"""The turns of a session before a trace, under a budget of tokens.

The first request is always there. From the newest turn back, each may take half of what is left: so the newest stand
there whole, older ones shortened, and those for which nothing is left are left out.
"""

import json
from collections.abc import Sequence
from typing import Final

from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.entries import MESSAGE, Entry, entries_of
from agenteval_collector.judge.prompt.fitting import Redact, fit, shown
from otel_agenteval.model import Json, Trace

LEAST: Final = 200
"""Tokens that a turn takes at least; where fewer are left, older turns are left out."""

_LABELS: Final = 24
"""Tokens of an entry without its values, about."""

_GAP: Final[Json] = {"kind": "left_out", "text": "[... older turns left out ...]"}


def earlier(trace: Trace, budget: int, redact: Redact) -> list[Json]:
    """Write what came before `trace` in at most `budget` tokens (160 or more), everything in it redacted.

    Its session's earlier turns, or where none were looked up, the messages that it was sent. Each stands there once.
    """
    turns = [entries_of(turn) for turn in trace.earlier] or [[message] for message in _messages(trace)]
    if not turns:
        return []
    sizes = [_size(turn) for turn in turns]
    room = budget - _cost([_GAP])
    begun = [shown(turns[0][0], room - _LABELS if sum(sizes) <= room else room // 4, redact)]
    free = room - _cost(begun)
    later: list[Json] = []
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index] if index else turns[0][1:]
        if free < LEAST:
            return [*begun, _GAP, *later]
        fits = sum(sizes[: index + 1]) <= free
        items = _fitted(turn, free if fits or not index else max(free // 2, LEAST), redact) if turn else []
        free -= _cost(items)
        later = items + later
    return begun + later


def _messages(trace: Trace) -> list[Entry]:
    """List the messages of before the trace: what it was sent, up to its own question."""
    said = list(trace.history)
    own = next((index for index in range(len(said) - 1, -1, -1) if said[index] == trace.input), len(said))
    return [Entry(kind=MESSAGE, labels={"kind": MESSAGE}, values={"text": text}) for text in said[:own]]


def _fitted(entries: Sequence[Entry], budget: int, redact: Redact) -> list[Json]:
    return fit(entries, budget, redact, head=int(len(entries) > 1), tail=1).items


def _cost(items: list[Json]) -> int:
    return tokens(encode(items))


def _size(entries: Sequence[Entry]) -> int:
    """Estimate the tokens of entries as they were recorded."""
    shown = [{**entry.labels, **entry.values} for entry in entries]
    return tokens(json.dumps(shown, ensure_ascii=False))
