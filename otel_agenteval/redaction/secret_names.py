"""The names of secrets, such as `DB_PASS` or `X-Api-Key`, and tests of the values beside them."""

import re
from enum import Enum
from functools import lru_cache
from typing import Final

from otel_agenteval.redaction.kinds import PLACEHOLDER


class Strength(Enum):
    """The strength of a name: which values beside it are secrets."""

    SURE = "any value but a word that stands for none"
    WEAK = "a value that looks made, not written"
    DIGITS = "a few digits"
    PHRASE = "several words"


_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PARTICLES: Final = re.compile("(?<=[^a-z])(?:は|が|を|も|是|为|為|은|는)$")
"""Particles that follow a name without a space, where the next word is the value."""
_APART: Final = re.compile(r"[-. :/\s\[\]@$]+")

_PASSWORDS: Final = (
    r"pass(?:word|wd|phrase|code|wort)|kennwort|contrase(?:ñ|n)a|senha|mot_de_passe|пароль|密码|密碼|パスワード"
    r"|wachtwoord|has(?:ł|l)o|l(?:ö|o)senord|adgangskode|passord|salasana|jelsz(?:ó|o)|heslo|parol[aăe]|(?:ş|s)ifre|비밀번호|mật_khẩu|รหัสผ่าน"
)
_KEYS: Final = (
    r"(?:api|access|secret|private|account|signing|sign|encryption|encrypt|crypt|shared|master|auth|storage|subscription|"
    r"service_role|deploy|ssh|webhook|hmac|aes|recovery|signature|validation|cipher|wrapping|unseal)_?key"
)
_END: Final = (
    r"(?:_?(?:[0-9]{1,2}|value|hash|base|base64|b64|plain|plaintext|text|string|header|confirm|confirmation|old|new|"
    r"current|again|repeat|env|id_secret))?"
)
_SURE: Final = re.compile(
    rf"(?:\w*(?:{_PASSWORDS})|(?:\w*_)?(?:pass|pw|psw|pswd|secret|credentials?|cookies?|authorization|x_auth)"
    rf"|\w*(?:pass|pwd|secret|[a-z0-9_]token|\b{_KEYS})|(?:\w*_)?{_KEYS}){_END}"
)
_WEAK: Final = re.compile(
    r"token|tokens|secrets|(?:\w*_)?(?:auth|creds?|salt|otp_secret|totp|phpsessid|jsessionid|aspsessionid\w*|sessid|csrf|xsrf"
    r"|connect_sid|session_cookie|bearer|apikeys?|dsn|webhook|webhook_url|sas|sas_url|connection_string|conn_str"
    r"|(?:app|application|consumer|license|functions|admin|root|client|server|integration|ingest|instrumentation|host"
    r"|service|device|write|bot)_?key(?:_data|_pem)?)"
)
_DIGITS: Final = re.compile(
    r"(?:\w*_)?(?:pin|pin_code|cvv2?|cvc2?|csc|otp|mfa|tan|one_time_(?:code|password|pin)|(?:verification|security|access|auth"
    r"|authentication|login|2fa|mfa|otp|recovery|backup|unlock|door|gate|sms|confirm)_codes?)"
)
_PHRASES: Final = re.compile(r"(?:\w*_)?(?:mnemonic|(?:seed|recovery|secret|mnemonic|backup)_(?:phrase|words))")
_HARMLESS: Final = re.compile(
    r"(?:\w*_)?(?:next|prev|previous|page|paging|continuation|sync|pagination|cursor|resume|max|min|num|total|prompt"
    r"|completion|input|output|cached?|reasoning|thinking|audio|eos|bos|pad|unk|sep|cls|mask|special|stop|end|first|last|per"
    r"|each|usd|cost|price|design|image|text|new|start|delta|top|vocab|count)_?tokens?"
    r"|(?:has|is|needs?|requires?|missing|invalid|forgot|show|hide|max|min|num|count|no|without)_\w*"
    r"|\w*(?:by|com|tres|sur|over|under|encom)pass|\w*_cookie_(?:consent|policy)|public_\w*"
)


@lru_cache(maxsize=4096)
def strength_of(name: str) -> Strength | None:
    """Return the strength of a name, written as `apiKey`, `api-key` or `API_KEY`; None if it is no name of a secret."""
    if len(name) > 100:
        return None
    plain = _PARTICLES.sub("", _APART.sub("_", _CAMEL.sub("_", name.strip(" -_:\"'"))).lower())
    if _HARMLESS.fullmatch(plain):
        return None
    # The most specific first: `one_time_password` is also a password, but its value is digits.
    for pattern, strength in (
        (_DIGITS, Strength.DIGITS),
        (_PHRASES, Strength.PHRASE),
        (_WEAK, Strength.WEAK),
        (_SURE, Strength.SURE),
    ):
        if pattern.fullmatch(plain):
            return strength
    return None


_NO_VALUE: Final = frozenset((
    "true", "false", "null", "none", "nil", "undefined", "str", "string", "text", "int", "integer", "number",
    "float", "bool", "boolean", "object", "array", "list", "dict", "any", "optional", "required", "secretstr",
    "bytes", "varchar", "char", "enabled", "disabled", "yes", "no", "on", "off", "missing", "invalid",
    "incorrect", "wrong", "expired", "empty", "unset", "hidden", "redacted", "masked", "unknown", "needed",
    "provided", "forgotten", "protected", "valid", "correct", "revoked", "rotated", "stored", "rejected",
    "accepted", "denied", "granted", "failed", "ok", "okay", "used", "sent", "set", "reset", "changed",
    "updated", "deprecated", "generated", "encrypted", "hashed", "value", "password", "passwd", "secret", "token",
    "key", "username", "user", "example", "changeme", "placeholder", "default", "bearer", "basic",
))  # fmt: skip
"""Words in the place of a value that are no values."""

_TEMPLATE: Final = re.compile(
    r"<[^<>]*>|!(?:Ref|Sub|GetAtt|ImportValue|FindInMap|Join|secret|env|env_var|var|vault|include|reference)"
    r"|(?i:(?:your|insert|paste|enter|replace|put)(?:[-_ ][a-z]+)*[-_ ]?"
    r"(?:key|token|secret|pass(?:word)?|here|value|id))"
    r"|\$\{?\{?[A-Za-z_][\w.]*\}{0,2}|\$\(.*|\{\{?[^{}]*\}?\}|%[sd]|%\([a-z_]+\)s|[*•xX.…_#-]{3,}|[~.]?/[\w.-]+(?:/[\w.-]*)*|\[[^\[\]]*\]"
)
_CODE: Final = re.compile(
    r"(?:os|self|this|config|settings|process|env|req|request|args|options|params|props|ctx|cfg|conf|data|user|form|event"
    r"|secrets|credentials|response|body|state|vault|context|input|var|local|client|app|opts|payload)"
    r"(?:\??\.[A-Za-z_]\w*)+[(\[]?.*|[A-Za-z_][\w.]*(?:\((?:[^)]*|.*\)[;,]?)|\[)",
    re.DOTALL,
)


def is_value(value: str) -> bool:
    """Return whether a text in the place of a value is one: no word such as "none", no placeholder, template or
    code."""
    word = value.strip().rstrip(".,;:!?)")
    return bool(
        word
        and word.casefold() not in _NO_VALUE
        and not PLACEHOLDER.search(word)
        and not _TEMPLATE.fullmatch(word)
        and not _CODE.fullmatch(word)
    )


def looks_made(value: str, least: int = 4) -> bool:
    """Return whether a value of at least `least` characters looks like a password or token, not like a word."""
    value = value.rstrip(".,;:!?)")
    if len(value) < least or not is_value(value):
        return False
    letters = any(map(str.isalpha, value))
    digits = any(map(str.isdecimal, value))
    mixed = re.search(r"[a-z][A-Z].*[a-z]|[A-Z]{2}[a-z]+[A-Z]", value) is not None
    symbols = re.search(r"\w[!@#$%^*+=~?&]+\w|\w[!@#$^*+=~]+$|^[!@#$^&*+=~]\w", value) is not None
    return letters and (digits or mixed or symbols)


def is_random(text: str, least: int = 16) -> bool:
    """Return whether the text has a run of at least `least` characters with both letters and digits, as no word is."""
    return any(
        re.search(r"[0-9]", run) and re.search(r"[A-Za-z]", run)
        for run in re.findall(rf"[A-Za-z0-9+/=]{{{least},}}|[A-Za-z0-9_-]{{{least + 4},}}", text)
    )


def fits(value: str, strength: Strength) -> bool:
    """Return whether `value`, in JSON or in quotes, can be the value of a name of this strength."""
    match strength:
        case Strength.DIGITS:
            return re.fullmatch(
                r"[0-9][0-9 -]{1,9}[0-9]|[A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{4,8})*", value.strip()
            ) is not None and any(map(str.isdecimal, value))
        case Strength.WEAK:
            return is_value(value) and (looks_made(value, 6) or (len(value) >= 12 and " " not in value.strip()))
        case _:
            return is_value(value)
