"""Secrets that are announced in one text and stand in a later one: "The password is:", then "hunter2"."""

import re
from typing import Final

from otel_agenteval.redaction.kinds import DataKind
from otel_agenteval.redaction.secret_names import is_value, looks_made

TEXTS: Final = 8
"""Texts after an announcement that may hold the value. Each message has several texts, such as its role."""

_SUBJECT: Final = re.compile(
    r"\b(?:(?P<digits>pin|(?:one[- ]time|verification|security|access|login|2fa|mfa|sms|door) code|otp|cvv|cvc)"
    r"|pass(?:word|phrase"
    r"|code|wort)|passwd|pwd?|token|(?:api|access|secret|private|signing|encryption|license)[ _-]?key|secret"
    r"|credentials?"
    r"|kennwort|contraseña|mot de passe|bearer|authorization)\b",
    re.IGNORECASE,
)
_HINT: Final = re.compile("pass|pin|code|otp|cv[vc]|pwd?|token|key|secret|credential|contrase|bearer|author|kennwort")
"""Every match of `_SUBJECT` holds one of these, and they are found many times faster."""
_OPEN: Final = re.compile(r"(?:[:=?]|\b(?:is|are|was|follows|below|ist|es|est|here))[\s\"'`*.…]*\Z", re.IGNORECASE)
_HANDED: Final = re.compile(
    r"\b(?:here|send(?:ing)?|this is|following|next|enter|type|provide|confirm)\b[^.!?\n]{0,40}"
    r"\b(?:password|passphrase|passcode|pin|token|key|secret|code)(?: next| now| below| then)?[.:!…]*\s*\Z"
    r"|\b(?:in|with) (?:the|my|a|another) (?:next|following|separate|second) (?:message|text|mail|line)[.:!…]*\s*\Z",
    re.IGNORECASE,
)
_BEGIN_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_CODE_IN_PARTS: Final = re.compile(r"(?<![\w-])[0-9]{3}[ -][0-9]{3,4}(?![\w-])")
_WORDS: Final = re.compile(r"[^\s\"'`]{4,200}")
_MAX_WORDS: Final = 8
"""The most words of a text that may be the announced value. A longer text is just the next message."""


class AnnouncedSecrets:
    """Finds secrets that an earlier text has announced. Give it one text after the other to `hear`.

    `kind` is the kind of the last value that was found.
    """

    def __init__(self) -> None:
        self._left = 0
        self._digits = False
        self._in_key = False
        self.kind = DataKind.SECRET

    def hear(self, text: str) -> tuple[int, int] | None:
        """Return the place in `text` of a value that an earlier text announced; None if there is none."""
        match = self._rest_of_key(text) or self._announced(text)
        self._note(text)
        return match

    def _rest_of_key(self, text: str) -> tuple[int, int] | None:
        if not self._in_key:
            return None
        self.kind = DataKind.PRIVATE_KEY
        self._in_key = "-----END" not in text
        # Only a text that can be a line of a key belongs to it. Any other text is the next message.
        if "-----END" in text or re.fullmatch(r"[A-Za-z0-9+/=\s:]{0,200}", text):
            return (0, len(text)) if text.strip() else None
        self._in_key = False
        return None

    def _announced(self, text: str) -> tuple[int, int] | None:
        if not self._left:
            return None
        self._left -= 1
        self.kind = DataKind.SECRET
        words = list(_WORDS.finditer(text[:400]))
        if len(text) > 400 or len(text.split()) > _MAX_WORDS:
            return None
        if self._digits and (code := _CODE_IN_PARTS.search(text)):
            self._left = 0
            return code.span()
        for word in words:
            value = word[0].rstrip(".,;:!?)")
            alone = len(words) == 1 and re.fullmatch(r"[0-9]{4,12}", value)
            if is_value(value) and (looks_made(value) or alone or (self._digits and re.fullmatch("[0-9]{3,8}", value))):
                self._left = 0
                return word.start(), word.start() + len(value)
        return None

    def _note(self, text: str) -> None:
        begins = text.rfind("-----BEGIN ")
        if begins >= 0 and _BEGIN_KEY.match(text, begins) and "-----END" not in text[begins:]:
            self._in_key = True
        tail = text[-120:]
        if _HINT.search(tail.lower()) is None:
            return
        if (_OPEN.search(tail) or _HANDED.search(tail)) and (subject := _last(tail)):
            self._left = TEXTS
            self._digits = subject["digits"] is not None


def _last(tail: str) -> re.Match[str] | None:
    matches = list(_SUBJECT.finditer(tail))
    return matches[-1] if matches and not re.search(r"[.!?\n]\s", tail[matches[-1].end() :]) else None
