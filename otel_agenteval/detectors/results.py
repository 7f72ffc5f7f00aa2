"""Which results of a tool are an answer, so that the same one again and again is no progress.

Three things tell an answer from a confirmation, which is the same whatever was done: whether it says that nothing was
found or done, whether the tool searches, and how much it says. Content is hostile: nothing here raises.
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
# Who acts is told that it was done, however many words that takes.
_ACTS: Final = frozenset({
    "add", "append", "assign", "book", "cancel", "change", "click", "commit", "copy", "create", "delete", "edit",
    "email", "fill", "insert", "log", "mark", "move", "notify", "pay", "post", "press", "publish", "push", "put",
    "record", "remove", "rename", "replace", "reserve", "save", "schedule", "send", "set", "sleep", "store", "submit",
    "tap", "type", "update", "upload", "wait", "write",
})  # fmt: skip
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
    """Whether what `tool` gave back is an answer to its arguments, and no mere confirmation or label.

    By its name a tool searches, judges, acts or does something else. An answer is all that a tool says which searches;
    of one that does not judge, what says that nothing was found or done: an empty list, `false`, an English word for
    it, and no field that confirms a deed; and of one that does not act, what is longer than `MIN_CONTENT`. Short values
    are none: `204`, `Clicked` and `sunny` may be right for many arguments.
    """
    values = list(_values(_decoded(result)))
    texts = [value.strip() for value in values if isinstance(value, str)]
    if len(texts) == len(values) and _NOTHING.issuperset(text.lower() for text in texts):
        return False
    parts = [part.lower() for part in _NAME_PARTS.findall(tool)]
    acts, judges = not _ACTS.isdisjoint(parts), not _JUDGES.isdisjoint(parts[:1])
    if not acts and (not _SEARCHES.isdisjoint(parts) or sum(map(len, texts)) > MIN_CONTENT):
        return True
    # Behind a deed that was done stands what was left undone.
    said = (text.split(". ", 1)[0] if acts else text for text in texts)
    denied = _denies(values) or any(_is_denial(text, parts) for text in said)
    return denied and not judges and not (acts and _confirms(values))


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
