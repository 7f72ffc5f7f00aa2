"""The search of a text for values beside the name of a secret: assigned, said, in a flag, a tag or a table."""

import re
from collections.abc import Iterator
from typing import Final

from otel_agenteval.redaction.kinds import PLACEHOLDER, DataKind, Rule
from otel_agenteval.redaction.secret_names import Strength, fits, is_random, looks_made, strength_of

_HINTS: Final = (
    "pass", "pwd", "kennwort", "contrase", "senha", "пароль", "密码", "密碼", "パスワード", "mot de passe", "secret",
    "wachtwoord", "hasło", "haslo", "lösenord", "losenord", "adgangskode", "salasana", "jelszó", "jelszo", "heslo",
    "parol", "şifre", "sifre", "비밀번호", "mật khẩu", "รหัสผ่าน",
    "token", "key", "auth", "cred", "cookie", "cvv", "cvc", "pin", "otp", "mfa", "code", "salt", "sessid", "sessionid",
    "connect.sid", "csrf", "xsrf", "mnemonic", "phrase", "psw", "pw", "dsn", "webhook", "sas", "connectionstring",
    "connection_string", "conn_str",
)  # fmt: skip
_HINT: Final = re.compile(rf"(?:{'|'.join(map(re.escape, _HINTS))})[\w-]{{0,24}}+")
_QUALIFIERS: Final = frozenset((
    "api", "access", "secret", "private", "client", "auth", "refresh", "signing", "encryption", "verification",
    "security", "one", "one-time", "time", "account", "bot", "session", "bearer", "recovery", "backup", "seed",
    "login", "service", "master", "shared", "storage", "app", "user", "webhook", "ssh", "2fa", "mfa",
    "confirmation", "mot", "de", "sas", "mật", "connection", "door", "gate",
))  # fmt: skip
"""Words that belong to a name together with the next one, as in "API key"."""
_NO_NAME: Final = re.compile(r"[^\w.-]")
_SEPARATOR: Final = re.compile(
    r"""\\{0,3}["'`\])*]{0,3}\s{0,3}(?:
        (?:[ ](?:for|of)[ ][\w.-]{1,30}[ ]?)?
        (?P<assigns>=>|:=|={1,3}|[:：]|\||<-|->|→|[–—-](?=\s)|(?<=["']),(?=\s{0,3}[bru]?\\{0,3}["']))
      | (?P<tag>(?:[ ][\w:-]{1,20}=["'][^"'<>]{0,40}["']){0,3}>)
      | (?P<pair>[,&;]?\s{0,4}\\{0,3}["']?
          (?:value|val|v|content|text|data|stringvalue|string_value)\\{0,3}["']?\s{0,2}[:=]
          |[ ]\{[^{}]{0,200}?\s(?:default|value)\s{0,9}=)
      | (?P<says>(?:[ ](?:for|to|of|on)[ ][^\n.:;!?]{1,40}?)?[ ]
          (?:(?:(?:is|was|has[ ]been|got|been|now)[ ])?(?:changed|set|reset|updated)[ ]to
          |is|was|are|ist|est|es|war|lautet|heißt|will[ ]be|to|as|é|è|er|är|on|je|este|là|jest|[—-]
          |reads|equals|is[ ]now|now[ ]is)
          (?:[ ](?:now|set[ ]to|currently|still|actually|just))?:?(?=[\s"'`])
          |['’]s(?=[ ])|[はを是为為은는][ ]?)
      | (?P<space>(?=\s))
    )[ \t]{0,8}(?:\*\*|__)?[ \t]{0,8}(?P<line>[\r]?\n[ \t]{0,8})?""",
    re.VERBOSE | re.IGNORECASE,
)
_SCHEME: Final = re.compile(
    r"(?:[rbuf]?\\{0,3}[\"'`])?(?:bearer|basic|token|digest|apikey|bot|negotiate)(?:[ ]+|%20)", re.IGNORECASE
)
_QUOTED: Final = re.compile(
    r"""[rbfu]{0,2}(?:\*\*)?\\{0,3}(["'`])(?P<value>(?:(?!\1)[^\n\\]|\\(?!\\{0,2}\1).){1,512}+)"""
)
_BARE: Final = re.compile(
    r"""(?:\*\*)?(?P<value>\$\{[^{}\s]{1,200}\}|[^\s"'`\\,;&<>(){}\[\]|][^\s"'`\\<>(){}\[\],;&|]*"""
    r"""(?:[,;&](?![\w.%-]*\s?[=:])[^\s"'`\\<>(){}\[\],;&|]+)*)"""
)
_JUDGED: Final = 512
"""The first characters of a bare value, by which it is judged. Only a value that is meant is read to its end:
otherwise the text would be read to its end at each name in it."""
_STOPS: Final = ".,;:!?*"
_RAW: Final = re.compile(
    r"\{(?![\w.]*\})(?P<braced>(?:[^{}\n]|\}\}){1,256})\}"
    r"|(?P<value>[^\s\"'`;,&<>|\\(){}\[\]](?:[,&](?![\w.%-]*=)|[^\s\"'`;,&<>|\\]){0,512})"
)
"""A bare value that may hold brackets, as in files of variables and in connection strings, if it may also be
`{x}`."""
_LINE: Final = re.compile(r"(?P<value>[a-z]{2,12}(?:[ -][a-z]{2,12}){3,23})[.\"'`]?[ \t]*(?:$|[\r\n\"'`\\,])")
_VAGUE: Final = frozenset(("|", "->", "<-", "→", "–", "—", "-"))
"""Separators that also occur in sentences."""
_OF_CODE: Final = re.compile(r"\(|\[\\?[\"']")
"""The beginning of a call or of an index, which shows that the name is code."""
_SOME_SCHEME: Final = re.compile(r"(?:[rbuf]?\\{0,3}[\"'`])?[A-Za-z][\w-]{1,30} +(?=(?P<token>[\w+/=.~-]{12,200}))")
"""Any word before a token, for the value of a header such as `Authorization`."""
_DEMANDED: Final = re.compile(r"\$\{\w+:?\?[^{}\n]*\}")
"""A shell variable that must be set, with the message for when it is not."""
_YOURS: Final = re.compile(r"your[-_]", re.IGNORECASE)
"""The beginning of a placeholder such as `<your-api-key>`, which is no tag."""
_FLAG: Final = re.compile(r"(?<!\S)-{1,2}[\w-]*\Z")
_VARIABLE: Final = re.compile(r"[a-z]+(?:_[a-z]+)+|[a-z]+[A-Z][A-Za-z]+")
"""The name of a variable, as in `password = db_password`."""
_IN_ARN: Final = re.compile(r"\barn:[\w:/.*-]*\Z")
"""The beginning of an AWS resource name. It may hold the word `secret:`, but no secret."""
_ASSIGNED: Final = re.compile(r"[a-z_]+=")
"""The beginning of another assignment, as in "pass rate=0.9"."""
_CODE: Final = re.compile(r"[0-9]{3,8}[#*]?|[0-9]{3} ?-? ?[0-9]{3}|(?=.*[0-9])[A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{4,8})+")
_GOES_ON: Final = re.compile(r"[-/.,:]?[0-9]|[ ]?(?:%|items|files|rows)")
_PROSE: Final = re.compile(r"[ \t]+[A-Za-z]")
_COMMON: Final = re.compile(
    r"\b(?:a|an|and|are|as|at|be|by|can|do|for|from|has|have|if|in|is|it|may|must|my|need|not|of|on|or|our|please|reset"
    r"|should|so|that|the|then|this|to|was|we|when|will|with|you|your|who|which|what|only|any|all)\b"
)


def _search(text: str) -> Iterator[tuple[int, int]]:
    lowered = text.lower()
    if len(lowered) != len(text):
        # A few letters become two in lower case, which moves all places: then only ASCII letters are lowered.
        lowered = re.sub("[A-Z]+", lambda match: match[0].lower(), text)
    end = 0
    for hint in _HINT.finditer(lowered):
        if hint.start() < end:
            continue
        name = _name(text, hint)
        first = hint.end() - len(name)
        if first and PLACEHOLDER.match(text, first - 1):
            continue
        strength = strength_of(name)
        if strength is None:
            continue
        separator = _SEPARATOR.match(text, hint.end())
        if separator is None:
            continue
        if _IN_ARN.search(text, max(0, first - 100), first):
            continue
        value = _value(text, name, strength, separator)
        if value is not None:
            yield value
            end = value[1]


def _name(text: str, hint: re.Match[str]) -> str:
    """Return the whole name around a hint, with words before it that belong to it."""
    head = text[max(0, hint.start() - 60) : hint.start()]
    piece = _NO_NAME.split(head)[-1]
    if piece and head[: -len(piece)].endswith("\\"):
        # The letter belongs to an escape of JSON, as in \\npassword.
        piece = piece[1:]
    start = len(head) - len(piece)
    while start and head[start - 1] == " " and (word := _NO_NAME.split(head[: start - 1])[-1]).lower() in _QUALIFIERS:
        start -= len(word) + 1
    return head[start:] + text[hint.start() : hint.end()]


def _value(text: str, name: str, strength: Strength, separator: re.Match[str]) -> tuple[int, int] | None:
    """Return the place of the value behind a separator; None if no text there can be the value."""
    at = separator.end()
    if _DEMANDED.match(text, at) or (separator["tag"] and _YOURS.match(name)):
        return None
    scheme = _SCHEME.match(text, at)
    if scheme is None and name.lower().endswith("authorization"):
        other = _SOME_SCHEME.match(text, at)
        scheme = other if other and is_random(other["token"], 12) else None
    if scheme:
        at = scheme.end() if not scheme[0].startswith(('"', "'", "`", "\\")) else at
    if strength is Strength.PHRASE or "pass" in name.lower():
        line = _LINE.match(text, at)
        if line is not None and separator["space"] is None and not _COMMON.search(line["value"]):
            return line.span("value")
    quoted = _QUOTED.match(text, at)
    bare = _BARE.match(text, at, at + _JUDGED)
    raw = _RAW.match(text, at, at + _JUDGED) if quoted is None and _is_raw(text, name, separator) else None
    if raw and bare and raw.end() <= bare.end():
        raw = None
    match = quoted or raw or bare
    if match is None:
        return None
    first, last = match.span("braced" if raw and raw["braced"] else "value")
    if scheme and quoted is None and scheme[0][0] in "\"'`\\":
        first = scheme.end()
    value = text[first:last]
    if inner := _SCHEME.match(value):
        first += inner.end()
        value = value[inner.end() :]
    is_code = quoted is None and _OF_CODE.match(text, last) and re.fullmatch(r"[A-Za-z_][\w.]*", value)
    if quoted is None:
        value = value.rstrip(_STOPS)
        if raw is not None:
            value = value.removesuffix(next((end for start, end in ("()", "[]", "{}") if start not in value), ""))
        last = first + len(value)
    is_meant = value and not is_code and _is_meant(text, name, value, strength, separator, quoted is not None, last)
    if is_meant and match is bare and bare.end() == at + _JUDGED and (whole := _BARE.match(text, at)):
        last = first + len(text[first : whole.end()].rstrip(_STOPS))
    return (first, last) if is_meant else None


def _is_raw(text: str, name: str, separator: re.Match[str]) -> bool:
    """Return whether a value behind `separator` is written as it is, without quotes: `DB_PASS=x`, `;Password=x`."""
    before = separator.start() - len(name) - 1
    return separator[0] == "=" and (name.isupper() or (before >= 0 and text[before] == ";"))


def _is_meant(  # noqa: PLR0911 - one line for each way to say it
    text: str, name: str, value: str, strength: Strength, separator: re.Match[str], is_quoted: bool, last: int
) -> bool:
    """Return whether `value`, which ends at `last`, is the value of the name, and not the next word of a sentence."""
    by = separator["assigns"] or separator["tag"] or separator["pair"]
    if separator["line"] and not is_quoted and by not in (":", "：", "="):
        return False
    if strength is Strength.DIGITS:
        return _CODE.fullmatch(value) is not None and (is_quoted or not _GOES_ON.match(text, last))
    if strength is Strength.PHRASE or (value.isdecimal() and len(value) < 4) or value.startswith("--"):
        return False
    if not is_quoted and _VARIABLE.fullmatch(value) and strength_of(value) is not None:
        return False
    may_be_number = is_number(value) and "pass" in name.lower()
    if by == ",":
        return strength is Strength.SURE and looks_made(value)
    if by:
        is_vague = separator["line"] or by in _VAGUE or (by != "=" and _PROSE.match(text, last))
        if is_vague and not is_quoted and strength is Strength.SURE:
            return looks_made(value) or may_be_number
        return fits(value, strength)
    if _FLAG.search(name):
        return fits(value, strength)
    if _ASSIGNED.match(value):
        return False
    if is_quoted:
        return strength is Strength.SURE and looks_made(value.replace(" ", ""), 3)
    return looks_made(value, 4 if strength is Strength.SURE else 8) or (bool(separator["says"]) and may_be_number)


def is_number(value: str) -> bool:
    """Return whether a value is a number that may be a password."""
    return re.fullmatch(r"[0-9]{4,12}", value) is not None


NAMED: Final = Rule(DataKind.SECRET, _HINTS, _search)
