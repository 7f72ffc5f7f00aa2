"""The search of a text for all values to replace: by their form, by their name, behind an encoding, by own patterns."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from otel_agenteval.redaction.encoded import decodings
from otel_agenteval.redaction.kinds import EVERY, PLACEHOLDER, DataKind, Match, Rule
from otel_agenteval.redaction.personal_forms import PERSONAL_RULES
from otel_agenteval.redaction.prefilter import Prefilter
from otel_agenteval.redaction.secret_forms import RULES
from otel_agenteval.redaction.unknown_tokens import unknown_tokens


class OwnPatterns:
    """The user's own patterns by name. Placeholders have the name in capitals. With `tokens`, what looks like a token
    is found as well, whatever its form, where nothing else is.

    Raises ValueError for a bad name, and for a pattern that RE2 cannot read or that matches an empty text. Raises
    ImportError without the package `google-re2`.
    """

    def __init__(self, patterns: Mapping[str, str], *, tokens: bool = False) -> None:
        self._tokens = tokens
        self._patterns: dict[str, Any] = {name.upper(): _compiled(name, pattern) for name, pattern in patterns.items()}

    def find(self, text: str) -> Iterator[Match]:
        """Yield the matches of one pattern after the other."""
        for kind, pattern in self._patterns.items():
            for match in pattern.finditer(text):
                if match[0]:
                    yield Match(kind, *match.span())

    def find_tokens(self, text: str) -> Iterator[Match]:
        """Yield what looks like a token, if that is wanted."""
        return (Match(DataKind.SECRET, *place) for place in (unknown_tokens(text) if self._tokens else ()))


def _compiled(name: str, pattern: str) -> Any:
    # RE2, because it takes linear time for any pattern. Imported here, because agents do without the package.
    import re2  # noqa: PLC0415

    if not name.isidentifier() or not name.isascii() or not name[0].isalpha() or len(name) > 40:
        raise ValueError(
            f"{name!r} is no name of a pattern: give letters, digits and underscores, a letter first, at most 40"
        )
    if name.upper() in DataKind.__members__:
        raise ValueError(f"{name!r} is a kind of its own: give the pattern another name")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(
            f"pattern {name!r} cannot be read by RE2 ({reason}): it has no backreferences, no look-around"
        ) from error
    if compiled.search("") is not None:
        raise ValueError(f"pattern {name!r} matches where nothing is: make it match at least one character")
    return compiled


MAX_LAYERS: Final = 3
"""Encodings inside one another that are decoded."""

_HARMLESS: Final = re.compile(r"[A-Za-z_]{0,18}|[0-9.]{0,6}")
"""Texts without values: roles, names and small numbers. They are more than half of the texts in JSON."""

_RULES: Final[tuple[Rule, ...]] = (*RULES, *PERSONAL_RULES)


class Finder:
    """Finds values of `kinds`, and values of the user's own patterns."""

    def __init__(self, kinds: Collection[DataKind] = EVERY, own: OwnPatterns | None = None) -> None:
        self._kinds = frozenset(kinds)
        self._own = own
        self._wanted = _rules_of(self._kinds)
        self._prefilter = _prefilter_of(self._kinds)

    def find(self, text: str, layers: int = MAX_LAYERS) -> list[Match]:
        """Return the matches in `text` by place. They do not overlap: where kinds compete, the more specific one
        wins."""
        if _HARMLESS.fullmatch(text) and self._own is None:
            return []
        wanted, may_be_encoded = self._wanted, True
        if self._prefilter is not None:
            wanted, may_be_encoded = self._prefilter.look(text)
            if not wanted and not may_be_encoded and self._own is None:
                return []
        own = list(self._own.find(text)) if self._own is not None else []
        tokens = list(self._own.find_tokens(text)) if self._own is not None else []
        encoded = list(self._encoded(text, layers)) if layers and may_be_encoded else []
        lowered = text.lower()
        if not own and not tokens and not encoded and not any(_candidates(wanted, text, lowered)):
            return []
        # All kinds are looked for from here on, wanted or not: a more specific one may claim the place of a wanted one.
        covered = bytearray(len(text))
        for placeholder in PLACEHOLDER.finditer(text):
            _take(covered, *placeholder.span())
        matches = []
        # An encoded text is one match, although a part of it may match a rule by itself.
        for match in (*own, *encoded, *_candidates(_RULES, text, lowered), *tokens):
            if covered.find(1, match.start, match.end) < 0:
                _take(covered, match.start, match.end)
                matches.append(match)
        mine = (match for match in matches if match.kind in self._kinds or match in own)
        return sorted(mine, key=lambda match: match.start)

    def _encoded(self, text: str, layers: int) -> Iterator[Match]:
        for start, end, decoded in decodings(text):
            if inside := self.find(decoded, layers - 1):
                yield Match(inside[0].kind, start, end)


def find(text: str, kinds: Collection[DataKind] = EVERY) -> list[Match]:
    """Return the matches of `kinds` in `text`, as `Finder.find` does."""
    return Finder(kinds).find(text)


@cache
def _rules_of(kinds: frozenset[DataKind]) -> Sequence[Rule]:
    return tuple(rule for rule in _RULES if rule.kind in kinds)


@cache
def _prefilter_of(kinds: frozenset[DataKind]) -> Prefilter | None:
    return Prefilter.of(_rules_of(kinds))


def _candidates(rules: Iterable[Rule], text: str, lowered: str) -> Iterator[Match]:
    return (
        Match(rule.kind, start, end)
        for rule in rules
        if rule.may_be_in(text, lowered)
        for start, end in rule.search(text)
    )


def _take(covered: bytearray, start: int, end: int) -> None:
    covered[start:end] = b"\1" * (end - start)
