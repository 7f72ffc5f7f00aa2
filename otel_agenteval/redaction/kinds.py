"""The kinds of data that are redacted, the placeholders for them, and the form of a rule that finds them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final


class DataKind(StrEnum):
    """The kind of a value that is redacted. `SECRET` is a password, a credential, or a token without a form of its
    own."""

    PRIVATE_KEY = "PRIVATE_KEY"
    JWT = "JWT"
    API_KEY = "API_KEY"
    SECRET = "SECRET"
    EMAIL = "EMAIL"
    IBAN = "IBAN"
    CARD = "CARD"
    SSN = "SSN"
    ID_NUMBER = "ID_NUMBER"
    PHONE = "PHONE"
    IP = "IP"


EVERY: Final = frozenset(DataKind)
PERSONAL: Final = frozenset(
    {DataKind.EMAIL, DataKind.IBAN, DataKind.CARD, DataKind.SSN, DataKind.ID_NUMBER, DataKind.PHONE, DataKind.IP}
)
"""Data about a person."""
SECRETS: Final = EVERY - PERSONAL

PLACEHOLDER: Final = re.compile(r"\[[A-Z][A-Z0-9_]{0,40}_(?:[0-9a-f]{12}|[1-9][0-9]{0,8})\]")
"""The form of a placeholder: `[EMAIL_1]`, or `[EMAIL_3fa9c1d20b7e]` if a key makes it."""


@dataclass(frozen=True, slots=True)
class Match:
    """A value in a text: `text[start:end]`. `kind` is a `DataKind`, or the name of one of the user's own patterns."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds values of one kind in a text.

    A text with such a value holds one of `signs` once it is in lower case, and `sign` matches in it. Both tests are
    many times faster than `search`, and most texts fail them. Without `signs` and `sign` every text is searched.
    """

    kind: DataKind
    signs: tuple[str, ...]
    search: Callable[[str], Iterator[tuple[int, int]]]
    sign: re.Pattern[str] | None = None

    def may_be_in(self, text: str, lowered: str) -> bool:
        """Return whether `text` may hold a value. `lowered` is the same text in lower case."""
        return (not self.signs or any(map(lowered.__contains__, self.signs))) and (
            self.sign is None or self.sign.search(text) is not None
        )


_RUN: Final = re.compile(r"[A-Za-z0-9_+/=.:$-]{16,}+")


@lru_cache(maxsize=2)
def _runs(text: str) -> tuple[tuple[int, int], ...]:
    """Return the places of long tokens. Cached, because several rules ask for those of the same text in a row."""
    return tuple(run.span() for run in _RUN.finditer(text))


def rule(
    kind: DataKind,
    signs: str,
    regex: str,
    valid: Callable[[str], bool] | None = None,
    *,
    sign: str | None = None,
    in_runs: bool = False,
) -> Rule:
    """Make a rule of a pattern. The value is the group `value`, or all that matches. `valid` says which values count.

    `signs` are separated by spaces. `in_runs` says that all matches lie in runs of 16 or more letters, digits and
    `_+/=.:$-`, which few texts have: then only those are searched.
    """
    compiled = re.compile(regex)
    group = "value" if "value" in compiled.groupindex else 0

    def search(text: str) -> Iterator[tuple[int, int]]:
        for run in _runs(text) if in_runs else ((0, len(text)),):
            for match in compiled.finditer(text, *run):
                if valid is None or valid(match[group]):
                    yield match.span(group)

    return Rule(kind, tuple(signs.split()), search, None if sign is None else re.compile(sign))


def start(inside: str) -> str:
    """Return a pattern for the place before a value: not behind one of the characters `inside`, unless that belongs to
    an escape of JSON such as `\\n`."""
    return rf"(?:(?<![\\{inside}])|(?<=\\[nrtbf])|(?<=\\)(?![nrtbf]))"


WORD: Final = start("A-Za-z0-9")
