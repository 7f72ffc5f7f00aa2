"""Which results of a tool are an answer, so that the same one again and again is no progress.

Every result is, but for three: a confirmation, which is the same whatever was done; a verdict, which may be right of
many things; and a short value, where the tool's name says that it gets values. Content is hostile: nothing here raises.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from otel_agenteval.detectors.content import MAX_DECODED
from otel_agenteval.model import Json
from otel_agenteval.tool_names import ACTS, acts, gets_values, judges, searches, words_of

MIN_CONTENT: Final = 80
"""Characters of text in a result that are content, whatever they say: values count, the names of fields do not."""

_MAX_VALUES: Final = 1000
_NOTHING: Final = frozenset(("", "null", "none", "undefined", "n/a", "-"))
_DONE: Final = frozenset(("completed", "created", "done", "ok", "success", "succeeded"))
# Fields that say whether it was done; others that are false, as `enabled`, may be what was to be done.
_OUTCOMES: Final = frozenset(
    (*_DONE, "accepted", "available", "exists", "found", "paid", "sent", "successful", "valid")
)
_STATUSES: Final = frozenset(("state", "status"))
_CONFIRMS: Final = re.compile(
    r"\b(?:accepted|added|affected|applied|booked|completed?|confirmed|copied|created|deleted|done|finished|"
    r"insert(?:ed)?|moved|(?:no|without) output|ok|okay|passed|posted|queued|recorded|removed|saved|scheduled|sent|set|"
    r"stored|submitted|succeeded|success|successful|successfully|taken|updated|uploaded|written)\b",
    re.IGNORECASE,
)
_DONE_STATUSES: Final = range(200, 300)
# Not what something was set to, marked as, or called.
_REFUSES: Final = re.compile(
    r"(?<!\bto )(?<!\bas )(?<!['\"])\b(?:(?:cannot|denied|errors?|exceeded|fail(?:ed|s|ures?)?|forbidden|insufficient|"
    r"invalid|refused|unable|unauthorized|unavailable|unsupported|"
    r"(?:can|could|did|does) not|not (?:allowed|exist|found|permitted|possible|\w+able))\b|sold out\b|timed out\b|"
    r"try again\b|(?:already|are|is) (?:full|occupied|taken)\b|already exists\b)|n['’]t\b",
    re.IGNORECASE,
)
_NEGATES: Final = re.compile(
    r"\b(?:empty|missing|no|none|not|nothing|sorry|timeout|unexpected|unknown)\b", re.IGNORECASE
)
# Behind a deed stands what was left undone, or how things are: only the first word of all denies the deed.
_BEGINS_REFUSAL: Final = re.compile(
    r"\W*(?:already|conflict|declined|expired|false|incorrect|missing|no|none|not|nothing|occupied|rejected|retry|sorry|taken|"
    r"timeout|too|unexpected|unknown|unchanged|wrong)\b",
    re.IGNORECASE,
)
_CLAUSE_ENDS: Final = re.compile(r"[.;,](?:\s|$)")
_FAULT: Final = r"(?:conflicts?|errors?|failures?|faults?|issues?|output|problems?|warnings?)"
_FAULTS: Final = re.compile(_FAULT, re.IGNORECASE)
# What is good to be without.
_HARMLESS: Final = re.compile(
    rf"\b(?:no|zero|0|without)(?: \w+)?? {_FAULT}(?: (?:or|and) {_FAULT})?\b|\b{_FAULT}\s*[:=]\s*(?:0|no|none)\b",
    re.IGNORECASE,
)

_Field = tuple[str, Json]
"""A value at any depth of a result, and the name of the field that it stands in; "" where it stands in none."""


def is_answer(tool: str, result: Json) -> bool:
    """Whether what `tool` gave back is an answer to its arguments, and no mere confirmation, verdict or value.

    By the first words of its name a tool searches, judges, gets values, or does something else; by any of them it acts,
    unless the first one says that it only reads. All that a tool says which searches is an answer, as long as it was
    recorded. What one says that acts is none, unless it refuses the deed: by a field like `success` that is false, or
    an English word, and no field that confirms it. Of the others, what is longer than `MIN_CONTENT` is an answer, but
    nothing shorter of one that judges; of one that gets values a denial is, of more than a word; and of any other all
    that is no confirmation.
    """
    words = words_of(tool)
    if searches(words):
        return result is not None
    fields = list(_fields(_decoded(result)))
    values = [value for _, value in fields]
    texts = [value.strip() for value in values if isinstance(value, str)]
    if len(texts) == len(values) and _NOTHING.issuperset(text.lower() for text in texts):
        return False
    if acts(words):
        return _refuses(fields, words) and not _confirms(values)
    is_long = sum(map(len, texts)) > MIN_CONTENT
    if is_long or judges(words):
        return is_long
    if gets_values(words):
        return [] in values or _is_undone(fields, words) or any(_is_missing(field, words) for field in fields)
    return (
        _denies(values)
        or any(_is_denial(text, words) or _begins_refusal(text, words) for text in texts)
        or not all(_is_confirmation(value, words) for value in values)
    )


def _refuses(fields: list[_Field], words: list[str]) -> bool:
    """Whether a tool that acts says that it did not; what it was to set, as `status`, says nothing of that."""
    texts = [value.strip() for name, value in fields if isinstance(value, str) and name not in words]
    return _is_undone(fields, words) or any(_begins_refusal(text, words) for text in texts)


def _begins_refusal(text: str, words: list[str]) -> bool:
    clause = _CLAUSE_ENDS.split(_HARMLESS.sub("", text[:MIN_CONTENT]), maxsplit=1)[0]
    first = _BEGINS_REFUSAL.match(clause)
    return any(not _is_named(said[0], words) for said in (*_REFUSES.finditer(clause), *((first,) if first else ())))


def _is_undone(fields: list[_Field], words: list[str]) -> bool:
    """Whether it says by false alone, or in a field for that, that it was not done or not found."""
    flags = [value for name, value in fields if isinstance(value, bool) and _tells_outcome(name, words)]
    return False in flags and True not in flags


def _tells_outcome(field: str, words: list[str]) -> bool:
    """Whether a field says if all went well, by its name or by the verb of its tool: `booked` of `book_seat`."""
    return not field or field in _OUTCOMES or any(word in ACTS and field.startswith(word) for word in words)


def _is_missing(field: _Field, words: list[str]) -> bool:
    """Whether a value that was to be got is not there, and is none itself, as a label or a status."""
    name, value = field
    return isinstance(value, str) and name not in _STATUSES and len(value.split()) > 1 and _is_denial(value, words)


def _is_denial(text: str, words: list[str]) -> bool:
    """Whether a text begins by denying something, but what its tool was to do: `failed` confirms `fail_job`."""
    text = _HARMLESS.sub("", text[:MIN_CONTENT])
    return any(not _is_named(said[0], words) for each in (_REFUSES, _NEGATES) for said in each.finditer(text))


def _is_named(said: str, words: list[str]) -> bool:
    """Whether the tool is named for what was said: `declined` confirms `decline_offer`, `denied` `deny_request`."""
    stems = [word[:-1] if word in ACTS and len(word) > 3 else word for word in words if len(word) > 2]
    return said.lower().startswith(tuple(stems))


def _denies(values: list[Json]) -> bool:
    flags = [value for value in values if isinstance(value, bool)]
    return [] in values or (False in flags and True not in flags)


def _is_confirmation(value: Json, words: list[str]) -> bool:
    """Whether a value says no more than that all went well: `ok`, true, an exit code, an HTTP status, `gespeichert`."""
    if isinstance(value, str):
        said = value.strip().lower()
        # In whatever language: the tool's own word, with another ending.
        named = any(len(word) > 5 and word[:-2] in said for word in words)
        return named or said in _NOTHING or _CONFIRMS.search(said) is not None
    return value is True or value == 0 or (isinstance(value, int) and value in _DONE_STATUSES)


def _confirms(values: list[Json]) -> bool:
    """Whether a field says that it was done, whatever the others add."""
    return any(each is True or (isinstance(each, str) and each.strip().lower() in _DONE) for each in values)


def _fields(decoded: Json) -> Iterator[_Field]:
    """The values in a result, at any depth: texts, numbers, true, false, and empty lists of what was looked for."""
    pending: list[_Field] = [("", decoded)]
    count = 0
    while pending and count < _MAX_VALUES:
        count += 1
        name, value = pending.pop()
        if isinstance(value, dict):
            pending += ((key.lower(), each) for key, each in value.items())
        elif isinstance(value, list) and value:
            pending += ((name, each) for each in value)
        elif value is None or (value == [] and _FAULTS.search(name)):
            continue
        else:
            yield name, value


def _decoded(result: Json) -> Json:
    # Some instrumentations write JSON text as a JSON string once more.
    for _ in range(2):
        if not isinstance(result, str) or len(result) > MAX_DECODED:
            break
        try:
            result = json.loads(result)
        except (ValueError, RecursionError):
            break
    return result
