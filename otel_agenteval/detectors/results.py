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

MIN_CONTENT: Final = 80
"""Characters of text in a result that are content, whatever they say: values count, the names of fields do not."""

_MAX_VALUES: Final = 1000
_NAME_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NOTHING: Final = frozenset(("", "null", "none", "undefined", "n/a", "-"))
_DONE: Final = frozenset(("completed", "created", "done", "ok", "success", "succeeded"))
# Who searches asks the same with other words: what such a tool says is an answer in any language.
_SEARCHES: Final = frozenset(("find", "google", "grep", "look", "lookup", "retrieve", "search"))
# Who judges says the same of many things, and rightly.
_JUDGES: Final = frozenset({
    "ask", "can", "check", "classify", "compare", "confirm", "contains", "does", "exists", "grade", "has", "is",
    "judge", "lint", "rate", "test", "validate", "verify",
})  # fmt: skip
# A value may rightly be the same for many: four cities are sunny.
_MEASURES: Final = ("calc", "comput", "convert", "count", "get", "measure", "sum")
# Who acts is told that it was done, however many words that takes.
_ACTS: Final = frozenset({
    "add", "append", "approve", "archive", "assign", "book", "cancel", "change", "click", "close", "commit", "copy",
    "create", "decline", "delete", "deploy", "disable", "edit", "email", "enable", "fill", "goto", "hover", "insert",
    "log", "login", "mark", "merge", "move", "navigate", "notify", "pay", "post", "press", "publish", "push", "put",
    "record", "register", "reject", "remove", "rename", "replace", "reply", "reserve", "reset", "save", "schedule",
    "scroll", "send", "set", "sleep", "start", "stop", "store", "submit", "subscribe", "tap", "transfer", "type",
    "update", "upload", "wait", "write",
})  # fmt: skip
_CONFIRMS: Final = re.compile(
    r"\b(?:accepted|added|affected|applied|booked|completed?|confirmed|copied|created|deleted|done|finished|"
    r"insert(?:ed)?|moved|(?:no|without) output|ok|okay|passed|posted|queued|recorded|removed|saved|scheduled|sent|set|"
    r"stored|submitted|succeeded|success|successful|successfully|updated|uploaded|written)\b",
    re.IGNORECASE,
)
_DONE_STATUSES: Final = range(200, 300)
_DENIES: Final = re.compile(
    r"\b(?:(?:cannot|conflict|declined|denied|empty|error|errors|exceeded|expired|fail|failed|fails|failure|false|forbidden|"
    r"insufficient|invalid|low|missing|no|none|not|nothing|occupied|refused|rejected|required|retry|sorry|taken|timeout|"
    r"unable|unauthorized|unavailable|unchanged|unexpected|unknown|unsupported|without|wrong)\b|timed out\b|too \w|"
    r"try again\b)|n['’]t\b",
    re.IGNORECASE,
)
_FAULT: Final = r"(?:conflicts?|errors?|failures?|faults?|issues?|output|problems?|warnings?)"
_FAULTS: Final = re.compile(_FAULT, re.IGNORECASE)
# What is good to be without.
_HARMLESS: Final = re.compile(
    rf"\b(?:no|zero|0|without)(?: \w+)?? {_FAULT}(?: (?:or|and) {_FAULT})?\b|\b{_FAULT}\s*[:=]\s*(?:0|no|none)\b",
    re.IGNORECASE,
)


def is_answer(tool: str, result: Json) -> bool:
    """Whether what `tool` gave back is an answer to its arguments, and no mere confirmation, verdict or value.

    By the first words of its name a tool searches, judges, gets values, or does something else; by any of them it acts.
    All that a tool says which searches is an answer. What one says that acts is none, unless it denies the deed: by an
    empty list, `false` or an English word, and no field that confirms it. Of the others, what is longer than
    `MIN_CONTENT` is an answer, and so is a denial, but of one that judges; of one that gets values nothing else is; of
    any other all that is no confirmation.
    """
    values = list(_values(_decoded(result)))
    texts = [value.strip() for value in values if isinstance(value, str)]
    if len(texts) == len(values) and _NOTHING.issuperset(text.lower() for text in texts):
        return False
    parts = [part.lower() for part in _NAME_PARTS.findall(tool)]
    if not _ACTS.isdisjoint(parts):
        # Behind a deed that was done stands what was left undone.
        denied = _denies(values) or any(_is_denial(text.split(". ", 1)[0], parts) for text in texts)
        return denied and not _confirms(values)
    if not _SEARCHES.isdisjoint(parts) or sum(map(len, texts)) > MIN_CONTENT:
        return True
    if not _JUDGES.isdisjoint(parts[:1]):
        return False
    if _denies(values) or any(_is_denial(text, parts) for text in texts):
        return True
    return not (parts and parts[0].startswith(_MEASURES)) and not all(
        _is_confirmation(value, parts) for value in values
    )


def _is_confirmation(value: Json, parts: list[str]) -> bool:
    """Whether a value says no more than that all went well: `ok`, true, an exit code, an HTTP status, `gespeichert`."""
    if isinstance(value, str):
        said = value.strip().lower()
        # In whatever language: the tool's own word, with another ending.
        named = any(len(part) > 5 and part[:-2] in said for part in parts)
        return named or said in _NOTHING or _CONFIRMS.search(said) is not None
    return value is True or value == 0 or (isinstance(value, int) and value in _DONE_STATUSES)


def _confirms(values: list[Json]) -> bool:
    """Whether a field says that it was done, whatever the others add."""
    return any(each is True or (isinstance(each, str) and each.strip().lower() in _DONE) for each in values)


def _denies(values: list[Json]) -> bool:
    flags = [value for value in values if isinstance(value, bool)]
    return [] in values or (False in flags and True not in flags)


def _is_denial(text: str, parts: list[str]) -> bool:
    """Whether a text begins by denying something, but what its tool was to do: `declined` confirms `decline_offer`."""
    said = (match[0].lower() for match in _DENIES.finditer(_HARMLESS.sub("", text[:MIN_CONTENT])))
    return any(not any(len(part) > 2 and word.startswith(part) for part in parts) for word in said)


def _values(decoded: Json) -> Iterator[Json]:
    """The values in a result, at any depth: texts, numbers, true, false, and empty lists of what was looked for."""
    pending: list[tuple[str, Json]] = [("", decoded)]
    count = 0
    while pending and count < _MAX_VALUES:
        count += 1
        name, value = pending.pop()
        if isinstance(value, dict):
            pending += value.items()
        elif isinstance(value, list) and value:
            pending += ((name, each) for each in value)
        elif value is None or (value == [] and _FAULTS.search(name)):
            continue
        else:
            yield value


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
