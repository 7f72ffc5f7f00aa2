"""Finds secrets and common personal data in text, by patterns that are linear in it.

Found are: e-mail addresses; phone numbers in international form, as usual in North America and much of Europe, or after
a word such as "phone"; payment cards (Luhn checksum); IBANs (checksum); US social security numbers with dashes; public
IP addresses; API keys of known forms; JSON web tokens; private keys in PEM; credentials after "Bearer" or "Basic";
passwords in URLs; values after names such as `password=`. Not found are names, postal addresses, dates of birth, and
bare digits, which are order numbers more often than anything else.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network
from typing import Final


class Kind(StrEnum):
    """The kind of data that was found. `SECRET` is a password, a credential or a token without a form of its own."""

    PRIVATE_KEY = "PRIVATE_KEY"
    JWT = "JWT"
    API_KEY = "API_KEY"
    SECRET = "SECRET"
    EMAIL = "EMAIL"
    IBAN = "IBAN"
    CARD = "CARD"
    SSN = "SSN"
    PHONE = "PHONE"
    IP = "IP"


EVERY: Final = frozenset(Kind)
PERSONAL: Final = frozenset({Kind.EMAIL, Kind.IBAN, Kind.CARD, Kind.SSN, Kind.PHONE, Kind.IP})
"""Data about a person; the other kinds are secrets."""

PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(Kind)})_[1-9][0-9]{{0,8}}\]")
"""The form of the text that replaces a finding, such as `[EMAIL_1]`."""


@dataclass(frozen=True, slots=True)
class Match:
    """One value: `text[start:end]`."""

    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Pattern:
    """`regex` finds candidates, in its group `value` where it has one; `valid` tells which of them are meant. `sign` is
    in every text with a candidate, and is looked for many times faster."""

    kind: Kind
    regex: re.Pattern[str]
    valid: Callable[[str], bool]
    sign: re.Pattern[str] | None


def find(text: str, kinds: Collection[Kind] = EVERY) -> list[Match]:
    """Return the findings of `kinds` in `text` by place. None overlaps another finding, of whatever kind; where kinds
    compete, the more specific one wins."""
    if not any(True for pattern in _PATTERNS if pattern.kind in kinds for _ in _candidates(pattern, text)):
        return []  # Most texts; what others have found in them is of no interest then.
    taken = bytearray(len(text))
    for placeholder in PLACEHOLDER.finditer(text):
        _take(taken, *placeholder.span())
    found = []
    for pattern in _PATTERNS:
        for start, end in _candidates(pattern, text):
            if taken.find(1, start, end) < 0:
                _take(taken, start, end)
                found.append(Match(pattern.kind, start, end))
    return sorted((finding for finding in found if finding.kind in kinds), key=lambda finding: finding.start)


def _candidates(pattern: _Pattern, text: str) -> Iterator[tuple[int, int]]:
    if pattern.sign is not None and pattern.sign.search(text) is None:
        return
    group = "value" if "value" in pattern.regex.groupindex else 0
    for match in pattern.regex.finditer(text):
        if pattern.valid(match[group]):
            yield match.span(group)


def _take(taken: bytearray, start: int, end: int) -> None:
    taken[start:end] = b"\1" * (end - start)


def _digits(text: str) -> str:
    return "".join(filter(str.isdecimal, text))


def _luhn(text: str) -> bool:
    """Return whether the checksum of ISO/IEC 7812-1 holds."""
    digits = [int(digit) for digit in reversed(_digits(text))]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2]]
    return (sum(digits[0::2]) + sum(doubled)) % 10 == 0


def _iban(text: str) -> bool:
    """Return whether the checksum of ISO 13616, modulo 97, holds."""
    compact = text.replace(" ", "")
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1


def _phone(text: str) -> bool:
    return 9 <= len(_digits(text)) <= 16


def _ipv4(text: str) -> bool:
    try:
        return IPv4Address(text).is_global
    except AddressValueError:
        return False


_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")


def _ipv6(text: str) -> bool:
    try:
        return IPv6Address(text) in _GLOBAL_UNICAST
    except AddressValueError:
        return False


def _credential(text: str) -> bool:
    """Return whether the match is more than the next word of a sentence, as in "basic authentication"."""
    return re.search(r"[0-9=+/]|.[A-Z]", text) is not None


def _start(inside: str) -> str:
    """Return a pattern for the place before a value: after none of the characters `inside`, or after an escape of JSON
    such as `\\n`."""
    return rf"(?:(?<![\\{inside}])|(?<=\\[nrtbf])|(?<=\\)(?![nrtbf]))"


_WORD: Final = _start("A-Za-z0-9")
_NAMED: Final = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|(?:[a-z]{2,10}[_-]?)?(?:token|secret)|credentials?|cookie"
    r"|(?:api|access|secret|private|account|signing|encryption)[_-]?key|(?:proxy-)?authorization)"
)
_ASSIGNED: Final = _WORD + rf"(?i:{_NAMED})" + r"""\\?["']?\s{0,3}(?:=>?|:)\s{0,3}"""
# Not the name of a type, as in a schema, nor what says only whether there is a value.
_SCHEME: Final = r"(?i:(?:token|digest|basic|bearer) )?(?!(?i:true|false|null|none|undefined|str|string)\b)"
_QUOTED: Final = r"(?P<value>(?:(?!\1)[^\\\n]){1,256}+)\\?\1"
_VALUE: Final = r"""(?P<value>[^\s"'\\,;&<>(){}\[\]]+)"""
_KEYS: Final = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and those that took their form
        r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{16,}",  # Stripe
        r"gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        r"gl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_.-]{16,}",  # GitLab
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}",  # AWS
        r"xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}",  # Slack
        r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}",  # Google
        r"hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}",
        r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|dop_v1_[a-f0-9]{32,}|SG\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+)?",
    )
)


def _pattern(kind: Kind, regex: str, valid: Callable[[str], bool] = bool, sign: str | None = None) -> _Pattern:
    return _Pattern(kind, re.compile(regex), valid, None if sign is None else re.compile(sign))


_PATTERNS: Final = (
    _pattern(
        Kind.PRIVATE_KEY,
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*+"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?",
    ),
    _pattern(
        Kind.JWT,
        _start(r"A-Za-z0-9_-") + r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*)?",
    ),
    _pattern(Kind.API_KEY, rf"{_WORD}(?:{_KEYS})"),
    _pattern(Kind.SECRET, r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,128}:(?P<value>[^\s/@]{1,256})@"),
    _pattern(
        Kind.SECRET,
        _WORD + r"(?i:bearer|basic)\s{1,4}(?P<value>[A-Za-z0-9+/=._~-]{8,})",
        _credential,
    ),
    _pattern(Kind.SECRET, _ASSIGNED + r"""\\?(["'])""" + _SCHEME + _QUOTED),
    _pattern(Kind.SECRET, _ASSIGNED + r"""\\?["']?""" + _SCHEME + _VALUE),
    _pattern(
        Kind.SECRET,
        _WORD + r"(?i:password|passphrase|passcode|pin) (?i:is|was) " + _VALUE,
        lambda value: any(map(str.isdecimal, value)),
    ),
    _pattern(
        Kind.EMAIL,
        _start(r"\w.%+'-") + r"[\w.%+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.(?![0-9_-])[\w-]{2,63}",
        sign="@",
    ),
    _pattern(
        Kind.IBAN,
        _WORD + r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
        _iban,
        sign=r"[A-Z]{2}[0-9]{2}",
    ),
    _pattern(
        Kind.CARD,
        r"(?<![\w.-])(?:(?:4[0-9]|5[1-5]|2[2-7]|6[0-9]|35)[0-9]{2}"
        r"([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
        r"|3[47][0-9]{2}([ -]?)[0-9]{6}\2[0-9]{5}|3[068][0-9]{2}([ -]?)[0-9]{6}\3[0-9]{4})(?![\w-])",
        _luhn,
    ),
    _pattern(
        Kind.SSN,
        r"(?<![\w-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])",
        sign=r"-[0-9]{2}-",
    ),
    _pattern(
        Kind.PHONE,
        r"(?<![\w+])\+[1-9](?:[ .()/-]{0,3}[0-9]){7,14}(?![0-9])",
        _phone,
        sign=r"\+[1-9]",
    ),
    _pattern(
        Kind.PHONE,
        r"(?<![\w.-])00[1-9][0-9]{0,2}(?:[ .()/-]{1,2}[0-9]{1,8}){2,5}(?![0-9])",
        _phone,
        sign=r"00[1-9]",
    ),
    _pattern(
        Kind.PHONE,
        r"(?<![\w.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}"
        r"|[2-9][0-9]{2}([.-])[0-9]{3}\1[0-9]{4})(?![\w-])",
        sign=r"[2-9][0-9]{2}[.)-] ?[0-9]{3}[ .-][0-9]{4}",
    ),
    _pattern(
        Kind.PHONE,
        r"(?<![\w.,:/+-])(?:0[1-9](?:[ .][0-9]{2}){4}|0[1-9][0-9]{1,3}[ /-][0-9]{3,8}(?: [0-9]{3,4})?)"
        r"(?![\w,:/.-]?[0-9])",
        _phone,
        sign=r"0[1-9][0-9]{0,3}[ ./-][0-9]{2}",
    ),
    _pattern(
        Kind.PHONE,
        _WORD + r"(?i:(?:tele)?phone|tel|mobile|cell|whatsapp|fax|telefon|handy"
        r"|(?:call|reach|text) (?:me|us) (?:at|on))"
        r"""(?i: ?(?:number|no|nr))?[ "'\\:.#=]{1,6}(?i:is )?"""
        r"(?P<value>\+?\(?[0-9](?:[ ()./-]{0,2}[0-9]){6,14})(?![0-9])",
        sign=r"[0-9](?:[ ()./-]{0,2}[0-9]){6}",
    ),
    _pattern(
        Kind.IP,
        r"(?<![\w.-])(?<!ersion )[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])",
        _ipv4,
        sign=r"\.[0-9]{1,3}\.[0-9]",
    ),
    _pattern(
        Kind.IP,
        r"(?<![\w:.])[23][0-9A-Fa-f]{0,3}:[0-9A-Fa-f:]{2,34}(?![\w:])",
        _ipv6,
        sign=r"[23][0-9A-Fa-f]{0,3}:[0-9A-Fa-f:]{2}",
    ),
)  # fmt: skip
