"""Finds everything in a text that has to be replaced: by its form, by its name, behind an encoding, by patterns of
one's own."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Final

from otel_agenteval.redaction.encoded import decodings
from otel_agenteval.redaction.kinds import EVERY, PLACEHOLDER, Kind, Match, Rule
from otel_agenteval.redaction.own_patterns import OwnPatterns
from otel_agenteval.redaction.personal import PERSONAL_RULES
from otel_agenteval.redaction.rules import RULES

MAX_LAYERS: Final = 3
"""Encodings inside one another that are looked behind."""

_HARMLESS: Final = re.compile(r"[A-Za-z_]{0,18}|[0-9.]{0,6}")
"""Roles, names, small numbers: more than half of the texts in JSON."""

_RULES: Final[tuple[Rule, ...]] = (*RULES, *PERSONAL_RULES)


class Finder:
    """Finds values of `kinds`, and those of patterns of one's own."""

    def __init__(self, kinds: Collection[Kind] = EVERY, own: OwnPatterns | None = None) -> None:
        self._kinds = frozenset(kinds)
        self._own = own
        self._wanted = _rules_of(self._kinds)

    def find(self, text: str, layers: int = MAX_LAYERS) -> list[Match]:
        """Return the findings in `text` by place. None overlaps another one, of whatever kind; where kinds compete, the
        more specific one wins."""
        if _HARMLESS.fullmatch(text) and self._own is None:
            return []
        own = list(self._own.find(text)) if self._own is not None else []
        encoded = [] if layers == 0 else list(self._encoded(text, layers))
        lowered = text.lower()
        if not own and not encoded and not any(_candidates(self._wanted, text, lowered)):
            return []  # Most texts: then it does not matter which other kinds there are.
        candidates = [*own, *_candidates(_RULES, text, lowered)]
        taken = bytearray(len(text))
        for placeholder in PLACEHOLDER.finditer(text):
            _take(taken, *placeholder.span())
        found = []
        # What is encoded goes whole, also where a part of it looks like something by itself.
        for match in (*own, *encoded, *candidates[len(own) :]):
            if taken.find(1, match.start, match.end) < 0:
                _take(taken, match.start, match.end)
                found.append(match)
        mine = (each for each in found if each.kind in self._kinds or each in own)
        return sorted(mine, key=lambda match: match.start)

    def _encoded(self, text: str, layers: int) -> Iterator[Match]:
        for start, end, decoded in decodings(text):
            if inside := self.find(decoded, layers - 1):
                yield Match(inside[0].kind, start, end)


def find(text: str, kinds: Collection[Kind] = EVERY) -> list[Match]:
    """Return the findings of `kinds` in `text`, as `Finder` does."""
    return Finder(kinds).find(text)


@cache
def _rules_of(kinds: frozenset[Kind]) -> tuple[Rule, ...]:
    return tuple(rule for rule in _RULES if rule.kind in kinds)


def _candidates(rules: Iterable[Rule], text: str, lowered: str) -> Iterator[Match]:
    return (
        Match(rule.kind, start, end)
        for rule in rules
        if rule.may_be_in(text, lowered)
        for start, end in rule.search(text)
    )


def _take(taken: bytearray, start: int, end: int) -> None:
    taken[start:end] = b"\1" * (end - start)
