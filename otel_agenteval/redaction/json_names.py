"""The search of JSON for values beside the name of a secret or of personal data.

The name of a value is the key above it, a name beside it (`{"name": "password", "value": "x"}`), the item before it in
a list (`["--password", "x"]`), or the column of a table.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from otel_agenteval.model import Json
from otel_agenteval.redaction.kinds import PLACEHOLDER, DataKind
from otel_agenteval.redaction.personal_forms import is_document_number
from otel_agenteval.redaction.secret_names import Strength, fits, looks_made, strength_of

_SCHEME: Final = re.compile(r"(?i:bearer|basic|token|digest|bot|apikey)\s+\S")


class Named(NamedTuple):
    """The kind of a value by its name, and the strength of the name. With `deep`, it holds for all texts inside an
    object or a list, too."""

    kind: DataKind
    strength: Strength = Strength.SURE
    deep: bool = False


_NAME_KEY: Final = re.compile(
    r"(?:\w*(?:name|key|header|field)|k|n|param|parameter|variable|env|var|label|attribute|option|flag|arg|setting|property|id"
    r"|column|title|question|element|selector|locator)"
)
_OF_FIELD: Final = re.compile(r"^[#.]|[ _-]?(?:text ?)?(?:field|input|box)$", re.IGNORECASE)
"""Parts of the name of a field on a page that do not belong to the name of its value."""
_VALUE_KEY: Final = re.compile(
    r"(?:\w*value|val|v|text|content|data|default|plaintext|values|answer|secret|literal|input|entered|reply)",
    re.IGNORECASE,
)
_USER_FLAGS: Final = frozenset(("-u", "-U", "--user", "--proxy-user", "--auth", "-a"))
"""Flags of command lines that take a user and a password with a colon between them."""
_LOGIN: Final = re.compile(r"[^\s:/]{1,64}[:%](?!//)\S+")
"""A user and a password with `:` or `%` between them; no URL."""
_COLUMNS: Final = ("columns", "headers", "header", "fields", "keys", "names")
_ROWS: Final = ("rows", "data", "values", "records", "items")
_WHOLE: Final = frozenset(("cookie", "cookies", "credentials", "credential", "secrets", "passwords"))
"""Keys whose whole value is secret: a text, or all texts inside an object or a list that look made."""
_PERSONAL: Final = (
    (re.compile(r"(?:.*_)?(?:phone|telephone|mobile|fax|phone_?number|mobile_?number)"), DataKind.PHONE, 7),
    (re.compile(r"(?:.*_)?(?:ssn|social_security(?:_number|_no)?)"), DataKind.SSN, 9),
    (
        re.compile(r"(?:.*_)?(?:passport|pasaporte|passeport|passaporto|reisepass|driv(?:ing|ers?)_licen[cs]e|national_id|tax_id)(?:_(?:number|no))?"),
        DataKind.ID_NUMBER,
        5,
    ),
    (re.compile(r"(?:.*_)?(?:card_?number|pan|cc_?number|credit_?card)"), DataKind.CARD, 12),
)  # fmt: skip
_KEY_PARTS: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "k"))
"""Fields of a key as JSON that are secret (RFC 7518, section 6)."""


def named_by(value: Mapping[str, Json], above: Named | None) -> dict[str, Named]:
    """Return the values of an object that have a name, by key. `above` is the name of the whole object."""
    named = {key: kind for key in value if (kind := _of_key(key)) is not None}
    if above is not None:
        inside = value if above.deep else filter(_VALUE_KEY.fullmatch, value)
        named = dict.fromkeys(inside, above) | named
    # A private key as JSON (RFC 7517).
    if "kty" in value:
        named |= {key: Named(DataKind.PRIVATE_KEY) for key in _KEY_PARTS.intersection(value)}
    named |= _paired(value)
    return named | _tabled(value)


def named_in(values: Sequence[Json]) -> list[Named | None]:
    """Return the name of each item of a list, None for most. A flag names the argument behind it, a header its value,
    the first of several rows the others."""
    if _is_table(values):
        return [None, *[Named(DataKind.SECRET, Strength.WEAK, deep=True)] * (len(values) - 1)]
    named: list[Named | None] = [None] * len(values)
    for index, (before, value) in enumerate(pairwise(values), start=1):
        if isinstance(before, str) and before in _USER_FLAGS and _LOGIN.fullmatch(str(value)):
            named[index] = Named(DataKind.SECRET)
        elif isinstance(before, str) and len(before) <= 100 and isinstance(value, str | int):
            kind = _of_key(before)
            if kind is not None and _stands_beside(str(before), str(value), kind, alone=len(values) == 2):
                named[index] = kind
    return named


def fits_name(text: str, named: Named) -> bool:
    """Return whether `text` can be the value of a name. A placeholder cannot: it is replaced already."""
    if not text.strip() or PLACEHOLDER.search(text):
        return False
    least = next((digits for _, kind, digits in _PERSONAL if kind is named.kind), None)
    if least is not None:
        if named.kind is DataKind.ID_NUMBER and is_document_number(text.strip()):
            return True
        return sum(map(str.isalnum if named.kind is DataKind.ID_NUMBER else str.isdecimal, text)) >= least and bool(
            re.search(r"[0-9]{3}", re.sub(r"[ ().+/-]", "", text))
        )
    return fits(text, named.strength)


def _of_key(key: str) -> Named | None:
    strength = strength_of(key)
    if strength is not None:
        plain = key.strip("-").lower()
        return Named(DataKind.SECRET, Strength.WEAK if plain in _WHOLE else strength, deep=plain in _WHOLE)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key[:100]).lower().replace("-", "_").replace(" ", "_")
    return next((Named(kind) for pattern, kind, _ in _PERSONAL if pattern.fullmatch(name)), None)


def _paired(value: Mapping[str, Json]) -> dict[str, Named]:
    """Return the named value of an object such as `{"name": "password", "value": ...}`, by key."""
    for key, name in value.items():
        if _NAME_KEY.fullmatch(key.lower()) and isinstance(name, str) and (kind := _of_key(_OF_FIELD.sub("", name))):
            return {key: kind._replace(deep=True) for key in value if _VALUE_KEY.fullmatch(key)}
    return {}


def _tabled(value: Mapping[str, Json]) -> dict[str, Named]:
    """Return the rows of a table of which a column is named as a secret, by key. All values that look made count
    then."""
    for key in _COLUMNS:
        names = value.get(key)
        if isinstance(names, list) and any(isinstance(name, str) and _of_key(name) for name in names):
            return {
                rows: Named(DataKind.SECRET, Strength.WEAK, deep=True)
                for rows in _ROWS
                if rows in value and rows != key
            }
    return {}


def _is_table(rows: Sequence[Json]) -> bool:
    """Return whether rows are a table: the first one names columns, one of which holds secrets. A pair is no table."""
    if len(rows) < 2 or not all(isinstance(row, list) and len(row) > 1 for row in rows):
        return False
    head = rows[0]
    return (
        isinstance(head, list)
        and all(isinstance(value, str) and not looks_made(value) for value in head)
        and strength_of(str(head[0])) is None
        and any(strength_of(str(value)) is not None for value in head)
    )


def _stands_beside(name: str, value: str, kind: Named, *, alone: bool) -> bool:
    """Return whether the item behind a name is its value, and not the next name in a list of names."""
    if strength_of(value) is not None and value.replace("-", "_").isidentifier():
        return False
    is_flag = name.startswith("-")
    return (
        is_flag
        or alone
        or looks_made(value)
        or kind.kind is not DataKind.SECRET
        or bool(_SCHEME.match(value))
        or (kind.strength is Strength.DIGITS)
    )
