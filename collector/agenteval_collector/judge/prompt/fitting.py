"""Fit a list of entries into a budget of tokens.

First, long values are cut in their middle, the longest most. If that is not enough, the list is summarised by its
structure: the ends and the decisive entries stay whole, and each other entry becomes one line. Only entries that have
no room for a line are left out, and a gap says what is missing. The time is linear in the size of what was recorded.
Values are redacted before they are cut, so that no cut can hide half a secret from the redaction.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

from agenteval_collector.judge.prompt.encoding import encode, tokens
from otel_agenteval.internal.text import as_text
from otel_agenteval.model import Json

Redact: TypeAlias = Callable[[Json], Json]
"""Replaces secrets and personal data. Leaves alone what it has replaced before."""

LONGEST_SECRET: Final = 4_096
"""Characters beside a cut that are thrown away, because the cut may have gone through a secret."""

LABELS: Final = 24
"""Rough number of tokens of an entry without its values."""
_LEAST: Final = 24
"""Tokens that each value may have at least, even under a tight budget. They hold a few words and the gap's note."""
_LEAST_LINE: Final = 8
_LONGEST_LINE: Final = 40
"""Tokens of the values in an entry that is shown as one line."""


class EntryKind(StrEnum):
    """The kind of an entry. `plural` names several of this kind."""

    plural: str

    def __new__(cls, value: str, plural: str) -> "EntryKind":
        member = str.__new__(cls, value)
        member._value_, member.plural = value, plural
        return member

    USER = "user", "user messages"
    REASONING = "reasoning", "pieces of reasoning"
    PLAN = "plan", "plans"
    REPLY = "reply", "replies"
    MODEL_ERROR = "model_error", "model errors"
    TOOL_CALL = "tool_call", "tool calls"
    ANSWER = "answer", "answers"
    NO_ANSWER = "no_answer", "turns without an answer"
    HANDOVER = "handover", "hand-overs"
    TOOL = "tool", "tools"
    OBSERVATION = "observation", "observations"
    MESSAGE = "message", "messages"
    """A text or a tool's result from before the trace, with an unknown speaker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a list. `labels` are ours and short. `values` were recorded and may have any length."""

    kind: EntryKind
    labels: Mapping[str, Json] = field(default_factory=dict)
    values: Mapping[str, Json]
    span_id: str | None = None
    """The span of the step; None if it is unknown, or the entry is no step."""
    is_marked: bool = False
    """True if something was found at this step, or if an agent handed over here."""

    @property
    def is_decisive(self) -> bool:
        """True for a step that is shown whole before others are: it failed, or is marked."""
        return self.failed or self.is_marked

    @property
    def failed(self) -> bool:
        """True for a step or a turn that failed."""
        return self.values.get("error") is not None


def fit(
    entries: Sequence[Entry], budget: int, redact: Redact, *, head: int = 0, tail: int = 0, most: int | None = None
) -> list[Json]:
    """Fit at most `most` of `entries` into `budget` tokens.

    The first `head` and the last `tail` entries are always shown. Each of these must have one value. 500 tokens have
    room for three of them.
    """
    order = list(islice(_inwards(len(entries), head, tail), most))
    level = _level([entries[index] for index in order], budget)
    least = max(_LEAST, budget // 40)
    if len(order) == len(entries) and level >= least:
        items: list[Json] = [shown(entry, level, redact) for entry in entries]
        if tokens(encode(items)) <= budget:
            return items
    return _by_structure(entries, order, head + tail, budget, redact)


def shorten(value: Json, cap: int, redact: Redact) -> Json:
    """Redact `value`, and cut it to at most `cap` tokens: its text without its middle."""
    text = as_text(value)
    reach = 2 * cap + LONGEST_SECRET
    if len(text) > 2 * reach:
        # At most 3 characters of a token are kept, half of them on each side. `reach` holds these and the margin.
        head = str(redact(text[:reach]))[:-LONGEST_SECRET]
        tail = str(redact(text[-reach:]))[LONGEST_SECRET:]
        return _without_middle(head, tail, len(text) - 2 * reach + 2 * LONGEST_SECRET, cap)
    value = redact(value)
    if tokens(encode(value)) <= cap:
        return value
    text = as_text(value)
    middle = (len(text) + 1) // 2
    return _without_middle(text[:middle], text[middle:], 0, cap)


def _without_middle(head: str, tail: str, missing: int, cap: int) -> str:
    """Join as much of the beginning of `head` and the end of `tail` as `cap` tokens hold."""
    # A token has at most three characters, half of them on each side. Each round measures the size and comes nearer.
    room = min(len(head), len(tail), 2 * cap)
    while True:
        left_out = len(head) + len(tail) + missing - 2 * room
        text = f"{head[:room]}[... {left_out} characters left out ...]{tail[len(tail) - room :]}"
        size = tokens(encode(text))
        if size <= cap or not room:
            return text
        room = min(room - 1, room * cap // size)


def shown(entry: Entry, cap: int, redact: Redact) -> Json:
    """Write an entry, each of its values redacted and cut to at most `cap` tokens."""
    return {**entry.labels, **{key: shorten(value, cap, redact) for key, value in entry.values.items()}}


def _level(entries: Sequence[Entry], budget: int) -> int:
    """Return about how many tokens the longest values may have, so that all entries fit.

    A result below 0 means that they do not fit at all.
    """
    sizes = sorted(tokens(as_text(value)) for entry in entries for value in entry.values.values())
    free = budget - LABELS * len(entries)
    # From the shortest value on: a value that is shorter than its share leaves the rest to the longer ones.
    for index, size in enumerate(sizes):
        share = free // (len(sizes) - index)
        if size > share:
            return share
        free -= size
    return budget


def _by_structure(entries: Sequence[Entry], order: Sequence[int], ends: int, budget: int, redact: Redact) -> list[Json]:
    """Show the first `ends` of `order`, a line for each of the others, and the decisive ones whole, as far as they fit.

    What room is left goes to the others, from both ends inwards. Entries without room for a line are counted in a gap.
    """
    largest = budget // 8
    free = budget - tokens(encode([_left_out(entries)])) - 1
    others = sorted(order[ends:], key=lambda index: not entries[index].is_decisive)
    line = max(_LEAST_LINE, min(_LONGEST_LINE, free * 2 // 3 // (len(order) or 1) - LABELS))
    chosen: dict[int, Json] = {}
    for index in [*order[:ends], *others]:
        item = shown(entries[index], largest, redact) if len(chosen) < ends else _line(entries[index], line, redact)
        free -= tokens(encode(item)) + 1
        if free < 0:
            break
        chosen[index] = item
    for index in others:
        if free < LABELS or index not in chosen:
            break
        whole = shown(entries[index], min(largest, max(free // 4, _LEAST)), redact)
        more = tokens(encode(whole)) - tokens(encode(chosen[index]))
        if more <= free:
            chosen[index], free = whole, free - more
    return _with_gap(entries, chosen)


def _line(entry: Entry, cap: int, redact: Redact) -> Json:
    """Write the beginnings of an entry's values, in about `cap` tokens altogether."""
    share = max(cap // (len(entry.values) or 1), 4)
    return {**entry.labels, **{key: _beginning(value, share, redact) for key, value in entry.values.items()}}


def _beginning(value: Json, cap: int, redact: Redact) -> Json:
    text = as_text(value)
    reach = 3 * cap + LONGEST_SECRET
    if len(text) > reach:
        text = str(redact(text[:reach]))[:-LONGEST_SECRET]
    else:
        value = redact(value)
        text = as_text(value)
        if len(text) <= 2 * cap and tokens(encode(value)) <= 2 * cap:
            return value
    beginning = " ".join(text[: 2 * cap].split())
    # A character that is written as an escape has several tokens.
    while len(beginning) > 1 and tokens(encode(beginning)) > cap:
        beginning = beginning[: len(beginning) // 2]
    return f"{beginning} ..."


def _with_gap(entries: Sequence[Entry], chosen: Mapping[int, Json]) -> list[Json]:
    """Put the chosen entries in order, and say in the first gap what is left out."""
    indices = sorted(chosen)
    items = [chosen[index] for index in indices]
    gap = [entry for index, entry in enumerate(entries) if index not in chosen]
    if gap:
        before = next((position for position, index in enumerate(indices) if position != index), len(indices))
        items.insert(before, _left_out(gap))
    return items


def _inwards(count: int, head: int, tail: int) -> Iterator[int]:
    """Yield the first `head` indexes, then the last `tail`, then the others alternately from front and back."""
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
    summaries = [
        f"{count} {kind.plural}" + (f" ({failed} failed)" if kind == EntryKind.TOOL_CALL and failed else "")
        for kind, count in counts.items()
    ]
    return {"kind": "left_out", "text": f"[... {len(entries)} entries left out: {', '.join(summaries)} ...]"}
