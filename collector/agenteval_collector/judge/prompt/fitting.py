"""A list of entries under a budget of tokens.

First long values are cut in their middle, the longest most; where that does not do, whole entries of the middle are
left out. What is missing is said where it is missing. Time is linear in what was recorded, and values are redacted
before they are cut, so that no cut can hide half a secret from the redaction.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

from agenteval_collector.judge.prompt.encoding import encode, tokens
from otel_agenteval.model import Json

Redact: TypeAlias = Callable[[Json], Json]
"""Replaces secrets and personal data; what it has replaced it leaves alone."""

LONGEST_SECRET: Final = 4_096
"""Characters beside a cut that are thrown away, because a secret may have been cut in them."""

LABELS: Final = 24
"""Tokens of an entry without its values, about."""
_LEAST: Final = 24
"""Tokens that a value may have however tight the budget: room for a few words and what was left out."""


class EntryKind(StrEnum):
    """The kind of an entry; `plural` names several of them."""

    plural: str

    def __new__(cls, value: str, plural: str) -> "EntryKind":
        member = str.__new__(cls, value)
        member._value_, member.plural = value, plural
        return member

    INSTRUCTIONS = "instructions", "instructions"
    USER = "user", "user messages"
    REASONING = "reasoning", "pieces of reasoning"
    PLAN = "plan", "plans"
    REPLY = "reply", "replies"
    MODEL_ERROR = "model_error", "model errors"
    TOOL_CALL = "tool_call", "tool calls"
    ANSWER = "answer", "answers"
    NO_ANSWER = "no_answer", "turns without an answer"
    TOOL = "tool", "tools"
    MESSAGE = "message", "messages"
    """A text or a tool's result of before the trace, of which is not known who said it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a list. `labels` are ours and short, `values` were recorded and may be of any length."""

    kind: EntryKind
    labels: Mapping[str, Json] = field(default_factory=dict)
    values: Mapping[str, Json]

    @property
    def failed(self) -> bool:
        """True for a tool call that failed."""
        return self.values.get("error") is not None


@dataclass(frozen=True, slots=True)
class Fitted:
    """The list as it may be shown; `kept` are the indexes of the entries that are in it."""

    items: list[Json]
    kept: tuple[int, ...]


def fit(
    entries: Sequence[Entry], budget: int, redact: Redact, *, head: int = 0, tail: int = 0, most: int | None = None
) -> Fitted:
    """Fit `entries`, at most `most`, into `budget` tokens; the first `head` and last `tail` are there in any case.

    These have one value each: 500 tokens have room for three of them.
    """
    order = list(islice(_inwards(len(entries), head, tail), most))
    level = _level([entries[index] for index in order], budget)
    least, largest = max(_LEAST, budget // 40), budget // 8
    if len(order) == len(entries) and level >= least:
        items: list[Json] = [shown(entry, level, redact) for entry in entries]
        if tokens(encode(items)) <= budget:
            return Fitted(items, tuple(range(len(entries))))
    caps = dict.fromkeys(order, min(max(level, least), largest)) | dict.fromkeys(order[: head + tail], largest)
    return _ends(entries, caps, budget, redact)


def shorten(value: Json, cap: int, redact: Redact) -> Json:
    """Redact `value`, and cut it to at most `cap` tokens: its text without its middle."""
    text = _text(value)
    reach = 2 * cap + LONGEST_SECRET
    if len(text) > 2 * reach:
        # At most 3 characters to a token are kept, half of them on each side: `reach` has that and the margin.
        head = str(redact(text[:reach]))[:-LONGEST_SECRET]
        tail = str(redact(text[-reach:]))[LONGEST_SECRET:]
        return _without_middle(head, tail, len(text) - 2 * reach + 2 * LONGEST_SECRET, cap)
    value = redact(value)
    if tokens(encode(value)) <= cap:
        return value
    text = _text(value)
    middle = (len(text) + 1) // 2
    return _without_middle(text[:middle], text[middle:], 0, cap)


def _without_middle(head: str, tail: str, missing: int, cap: int) -> str:
    """Join as much of the beginning of `head` and the end of `tail` as `cap` tokens hold."""
    # A token has at most three characters, half of them on each side. Each round comes nearer, by the measured size.
    kept = min(len(head), len(tail), 2 * cap)
    while True:
        left_out = len(head) + len(tail) + missing - 2 * kept
        text = f"{head[:kept]}[... {left_out} characters left out ...]{tail[len(tail) - kept :]}"
        size = tokens(encode(text))
        if size <= cap or not kept:
            return text
        kept = min(kept - 1, kept * cap // size)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown(entry: Entry, cap: int, redact: Redact) -> Json:
    """Write an entry, each of its values redacted and cut to at most `cap` tokens."""
    return {**entry.labels, **{key: shorten(value, cap, redact) for key, value in entry.values.items()}}


def _level(entries: Sequence[Entry], budget: int) -> int:
    """Find to how many tokens the longest values have to be cut so that all fit, about; below 0: none do."""
    sizes = sorted(tokens(_text(value)) for entry in entries for value in entry.values.values())
    free = budget - LABELS * len(entries)
    for index, size in enumerate(sizes):
        share = free // (len(sizes) - index)
        if size > share:
            return share
        free -= size
    return budget


def _ends(entries: Sequence[Entry], caps: Mapping[int, int], budget: int, redact: Redact) -> Fitted:
    """Show as many as fit, in the order of their indexes in `caps`, and say in the gap what is left out."""
    free = budget - tokens(encode([_left_out(entries)])) - 1
    chosen: dict[int, Json] = {}
    for index, cap in caps.items():
        item = shown(entries[index], cap, redact)
        free -= tokens(encode(item)) + 1
        if free < 0:
            break
        chosen[index] = item
    kept = sorted(chosen)
    items = [chosen[index] for index in kept]
    gap = [entry for index, entry in enumerate(entries) if index not in chosen]
    if gap:
        before = next((place for place, index in enumerate(kept) if place != index), len(kept))
        items.insert(before, _left_out(gap))
    return Fitted(items, tuple(kept))


def _inwards(count: int, head: int, tail: int) -> Iterator[int]:
    """Yield the first `head` indexes, the last `tail`, then the others: one from the front, one from the back."""
    yield from range(head)
    yield from range(count - 1, count - 1 - tail, -1)
    front, back = head, count - 1 - tail
    while front <= back:
        yield front
        if front < back:
            yield back
        front, back = front + 1, back - 1


def _left_out(entries: Sequence[Entry]) -> dict[str, Json]:
    counts = Counter(entry.kind for entry in entries)
    failed = sum(entry.failed for entry in entries if entry.kind == EntryKind.TOOL_CALL)
    parts = [
        f"{count} {kind.plural}" + (f" ({failed} failed)" if kind == EntryKind.TOOL_CALL and failed else "")
        for kind, count in counts.items()
    ]
    return {"kind": "left_out", "text": f"[... {len(entries)} entries left out: {', '.join(parts)} ...]"}
