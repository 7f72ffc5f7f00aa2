"""The kinds of what is found, and the placeholders that stand for it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final


class DataKind(StrEnum):
    """The kind of data that was found. `SECRET` is a password, a credential or a token without a form of its own."""

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
"""The form of the text that replaces a finding: `[EMAIL_1]`, or `[EMAIL_3fa9c1d20b7e]` where a key makes the names."""


@dataclass(frozen=True, slots=True)
class Match:
    """One value: `text[start:end]`. `kind` is a `DataKind`, or the name of a pattern of one's own."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds values of a kind in a text. Wherever there is such a value, one of `signs` is in the text in lower case,
    and `sign` matches somewhere: both are looked for many times faster. Empty and None: always search."""

    kind: DataKind
    signs: tuple[str, ...]
    search: Callable[[str], Iterator[tuple[int, int]]]
    sign: re.Pattern[str] | None = None

    def may_be_in(self, text: str, lowered: str) -> bool:
        """Return whether there can be a value in `text`, which is `lowered` in lower case."""
        return (not self.signs or any(map(lowered.__contains__, self.signs))) and (
            self.sign is None or self.sign.search(text) is not None
        )


_RUN: Final = re.compile(r"[A-Za-z0-9_+/=.:$-]{16,}+")


@lru_cache(maxsize=2)
def _runs(text: str) -> tuple[tuple[int, int], ...]:
    """Return the places of long tokens. Kept, as several rules look for them in the same text, one after the other."""
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
    """Make a rule of a pattern, whose value is its group `value` where it has one; `valid` tells which are meant.

    Spaces stand between `signs`. `in_runs`: all that the pattern matches are 16 or more letters, digits and `_+/=.:$-`
    in a row, which few texts have.
    """
    compiled = re.compile(regex)
    group = "value" if "value" in compiled.groupindex else 0

    def search(text: str) -> Iterator[tuple[int, int]]:
        for place in _runs(text) if in_runs else ((0, len(text)),):
            for match in compiled.finditer(text, *place):
                if valid is None or valid(match[group]):
                    yield match.span(group)

    return Rule(kind, tuple(signs.split()), search, None if sign is None else re.compile(sign))


def start(inside: str) -> str:
    """Return a pattern for the place before a value: after none of the characters `inside`, or after an escape of JSON
    such as `\\n`."""
    return rf"(?:(?<![\\{inside}])|(?<=\\[nrtbf])|(?<=\\)(?![nrtbf]))"


WORD: Final = start("A-Za-z0-9")
