"""What changes in every result of a tool though its calls have the same arguments: it tells of the call, and not of
what was asked for.

It is learnt for each tool within a trace, so that the agent's process and the collector learn the same. A value is
known by the word before it, in JSON as in a line of text; nobody needs to know the names of fields.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

MAX_SLOTS: Final = 64
"""Words of a tool behind which values are remembered: those that were met first."""
MIN_IDS: Final = 2
"""Comparisons in each of which an id differed."""
MIN_NUMBERS: Final = 3
"""Comparisons in each of which a number differed."""
JUMP: Final = 2.0
"""How many times the smallest number the greatest one is. What was measured jumps less."""
MIN_ID: Final = 5
"""Characters of an id."""

_SLOT: Final = re.compile(r"(?P<name>[^\W\d]\w*)(?P<between>[^\w\n]{1,8})(?P<value>[+-]?\w*\d[\w.:+-]*)")
# Where the next page is, and how far something has come, is news.
_LEADS_ON: Final = re.compile(r"cursor|next|offset|page|continu|progress|percent|status", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_HIDDEN: Final = "¤"


@dataclass(slots=True, eq=False)
class _Slot:
    """How the values behind a word changed from one result to the next."""

    compared: int = 0
    is_fixed: bool = False
    """True once a value stayed."""
    is_number: bool = True
    has_risen: bool = False
    has_fallen: bool = False
    low: float = float("inf")
    high: float = 0.0

    def learn(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        self.compared += 1
        self.is_fixed = self.is_fixed or before == after
        if any(map(str.isalpha, before[0] + after[0])):
            self.is_number = False
            self.is_fixed = self.is_fixed or min(map(len, after)) < MIN_ID
            return
        # Of a time or a range of lines, the first number.
        earlier, later = (float(_NUMBER.search(values[0])[0]) for values in (before, after))  # type: ignore[index]
        self.has_risen = self.has_risen or later > earlier
        self.has_fallen = self.has_fallen or later < earlier
        self.low, self.high = min(self.low, abs(earlier), abs(later)), max(self.high, abs(earlier), abs(later))

    @property
    def is_volatile(self) -> bool:
        """True if there was another id each time, or another number, far up and far down. A number that only rises
        tells of progress."""
        if self.is_fixed or not self.is_number:
            return not self.is_fixed and self.compared >= MIN_IDS
        goes_about = self.has_risen and self.has_fallen and self.high > JUMP * self.low
        return goes_about and self.compared >= MIN_NUMBERS


class VolatileValues:
    """Learns which values of one tool's results are volatile."""

    __slots__ = ("_slots", "known")

    def __init__(self) -> None:
        self._slots: dict[str, _Slot] = {}
        self.known: frozenset[str] = frozenset()
        """The words behind which values are volatile. Another object if it is another set."""

    def learn(self, before: str, after: str) -> None:
        """Compare two results of calls with the same arguments, one after the other."""
        earlier, later = _slots_of(before), _slots_of(after)
        for name, values in later.items():
            slot = self._slots.get(name)
            if name not in earlier or (slot is None and len(self._slots) >= MAX_SLOTS):
                continue
            if slot is None:
                slot = self._slots[name] = _Slot()
            slot.learn(earlier[name], values)
        known = frozenset(name for name, slot in self._slots.items() if slot.is_volatile)
        if known != self.known:
            self.known = known


def without(text: str, names: frozenset[str]) -> str:
    """Return a text without the values behind these words."""

    if not names:
        return text
    return _SLOT.sub(
        lambda match: f"{match['name']}{match['between']}{_HIDDEN}" if match["name"] in names else match[0], text
    )


def _slots_of(text: str) -> dict[str, tuple[str, ...]]:
    """Return the values with a digit, by the word before them."""
    slots: defaultdict[str, list[str]] = defaultdict(list)
    for match in _SLOT.finditer(text):
        if not _LEADS_ON.search(match["name"]):
            slots[match["name"]].append(match["value"])
    return {name: tuple(values) for name, values in slots.items()}
