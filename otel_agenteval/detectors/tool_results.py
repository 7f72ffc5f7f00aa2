"""Results of tool calls that brought nothing: nothing was found, the call was refused, or a failure was reported.

They are told by English words, those of tools and frameworks. Results in other words are compared as they are, so that
only exact repetitions of them are found. Nothing here raises.
"""

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Final

from otel_agenteval.detectors.fingerprints import MAX_DECODED
from otel_agenteval.detectors.tool_names import ToolName, tool_name
from otel_agenteval.model import Json

MAX_SHORT: Final = 300
"""Characters that a result may have to say that there is nothing. A longer one is content."""

MIN_CONTENT: Final = 80
"""A result with more characters of text than this is content, whatever it says."""

_MAX_CLAUSE: Final = 80
"""Characters within which a denial must stand. It comes first."""
_MAX_VALUES: Final = 100
"""The most values of a result that are looked at."""
_MAX_REPORT: Final = 300
"""Characters at the beginning and at the end of a result that are looked at."""
_BEGINS_JSON: Final = ("{", "[", '"', "0", "f", "n", "t")
_NOTHING: Final = frozenset(("", "null", "none", "undefined", "n/a", "-", "0", "false", "no"))
_DONE: Final = frozenset(("completed", "created", "done", "ok", "success", "succeeded"))
_OUTCOMES: Final = frozenset((*_DONE, "accepted", "found", "successful"))
_FAULT: Final = r"(?:alerts?|conflicts?|errors?|fail(?:ed|ures?)|faults?|issues?|output|problems?|threats?|warnings?)"
_FAULTS: Final = re.compile(_FAULT, re.IGNORECASE)
# Phrases that deny trouble, such as "0 errors" and "no issues".
_HARMLESS: Final = re.compile(
    rf"\b(?:no|zero|0|without)(?: \w+)?? {_FAULT}(?: (?:or|and) {_FAULT})?\b|\b{_FAULT}\s*[:=]\s*(?:0|no|none)\b",
    re.IGNORECASE,
)
# Words of denial. Those behind `to`, `as` or a quote are values: "set to failed", "marked as taken", "called 'error'".
_DENIES: Final = re.compile(
    r"\W*(?:already|empty|expired|full|incorrect|missing|no|none|not|nothing|occupied|rejected|sorry|taken|timeout|too|"
    r"unknown|wrong)\b"
    r"|.*?(?<!\bto )(?<!\bas )(?<!['\"])(?:\b(?:can(?:no|')t|denied|errors?|exceeded|fail(?:ed|s|ures?)?|forbidden|"
    r"insufficient|invalid|refused|unable|unauthorized|unavailable|unsupported|sold out|timed out|try again|"
    r"(?:can|could|did|does) not|not (?:\w+able|allowed|available|exist|found|permitted|possible)|"
    r"(?:already|are|is) (?:full|occupied|taken)|already exists|no such)\b|n['’]t\b)",
    re.IGNORECASE | re.DOTALL,
)
_DENYING_WORD: Final = re.compile(r"\w+\W*$")
_CLAUSE_ENDS: Final = re.compile(r"[.;,](?:\s|$)")
_REPORTS: Final = re.compile(r"\b(?:errors?|exit code:? [1-9]|fail(?:ed|ing|s|ures?)?|traceback)\b", re.IGNORECASE)
# Parts of the words of `_REPORTS`, and a field. Looking for these is faster than a search that ignores case.
_MAY_REPORT: Final = ("ail", "AIL", "rror", "RROR", "xit", '"ok"')
_EXIT_CODES: Final = ("exit_code", "exitCode", "exit_status")


class Lack(StrEnum):
    """The way in which a call brought nothing."""

    NOT_FOUND = "found nothing"
    REFUSED = "was refused"


def lack_in(tool: ToolName, result: Json) -> Lack | None:
    """Return the way in which a call of `tool` brought nothing. None where it brought something, or nobody can tell.

    A tool that searches or reads finds nothing, any other tool refuses. A tool that judges gives a verdict, which is
    something, whatever it says. So does a tool that says what its name says: `denied` of `deny_request`.
    """
    if result is None or (isinstance(result, str) and len(result) > MAX_SHORT):
        return None
    decoded = decoded_json(result)
    fields = list(_fields(decoded))
    if (tool.searches or tool.reads) and _is_empty_list(fields):
        return Lack.NOT_FOUND
    if tool.searches and (not fields or _is_nothing(decoded)):
        return Lack.NOT_FOUND
    if tool.judges or not fields or _is_nothing(decoded, but_false=True) or any(_is_done(value) for _, value in fields):
        return None
    if _is_undone(fields, tool) or any(_denies(value, tool) for name, value in fields if name not in tool.words):
        return Lack.NOT_FOUND if tool.searches else Lack.REFUSED
    return None


def is_content(tool: ToolName, result: Json) -> bool:
    """Return whether a result is more than a confirmation, a verdict or a value, which may rightly be the same for many
    calls. The result of a search always is."""
    if tool.searches:
        return True
    texts = (value for _, value in _fields(decoded_json(result)) if isinstance(value, str))
    return sum(map(len, texts)) > MIN_CONTENT


def ends_of(text: str) -> str:
    """Return the beginning and the end of a text, because that is where reports state their outcome."""
    return text if len(text) <= 2 * _MAX_REPORT else f"{text[:_MAX_REPORT]}\n{text[-_MAX_REPORT:]}"


def reports_failure(result: Json) -> bool:
    """Return whether a result reports a failure at its beginning or at its end, as tests and builds do."""
    if isinstance(result, dict):
        if any(result.get(name) not in (None, 0, "0") for name in _EXIT_CODES) or _is_adverse(result):
            return True
        result = " ".join(value for _, value in _fields(result) if isinstance(value, str))
    if not isinstance(result, str):
        return False
    shown = ends_of(result)
    for mark in _MAY_REPORT:
        if mark in shown:
            decoded = decoded_json(shown)
            if isinstance(decoded, dict):
                return reports_failure(decoded)
            return _REPORTS.search(_HARMLESS.sub("", shown)) is not None
    return False


def _is_empty_list(fields: list[tuple[str, Json]]) -> bool:
    """Return whether the result is an empty list, and beside it only numbers and words of success."""
    others = (value for _, value in fields if value != [] and not _is_done(value))
    return ("", []) in fields or (
        any(value == [] and not _FAULTS.search(name) for name, value in fields)
        and not any(isinstance(value, str) and value for value in others)
    )


def _is_nothing(decoded: Json, *, but_false: bool = False) -> bool:
    if isinstance(decoded, str):
        return decoded.strip(" .!").lower() in _NOTHING
    return decoded is None or decoded in ([], {}) or (decoded == 0 and not (but_false and decoded is False))


def _is_done(value: Json) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() in _DONE)


def _is_undone(fields: list[tuple[str, Json]], tool: ToolName) -> bool:
    """Return whether the result says by `false` that nothing was done: alone, or in a field such as `booked`."""
    return any(
        value is False and (not name or name in _OUTCOMES or any(name.startswith(word) for word in tool.words))
        for name, value in fields
    )


def _denies(value: Json, tool: ToolName) -> bool:
    """Return whether a text begins with a denial. A single word from a tool that reads is a value, and no denial."""
    if not isinstance(value, str) or (tool.reads and len(value.split(None, 1)) < 2):
        return False
    clause = _CLAUSE_ENDS.split(_HARMLESS.sub("", value.strip()[:_MAX_CLAUSE]), maxsplit=1)[0]
    match = _DENIES.match(clause)
    said = _DENYING_WORD.search(match[0]) if match else None
    # Words without their endings, so that `declined` counts as a word of `decline_offer`, and `denied` of
    # `deny_request`.
    stems = tuple(word[:-1] for word in tool.words if len(word) > 3)
    return said is not None and not said[0].lower().startswith(stems)


def _fields(decoded: Json) -> Iterator[tuple[str, Json]]:
    """Yield texts, numbers, booleans and empty lists at any depth, each with the name of its field in lower case."""
    pending: list[tuple[str, Json]] = [("", decoded)]
    count = 0
    while pending and count < _MAX_VALUES:
        count += 1
        name, value = pending.pop()
        if isinstance(value, dict):
            pending += ((key.lower(), each) for key, each in islice(value.items(), _MAX_VALUES))
        elif isinstance(value, list) and value:
            pending += ((name, each) for each in value[:_MAX_VALUES])
        elif value is not None and value != "":
            yield name, value


def decoded_json(value: Json) -> Json:
    """Return the value of JSON text of at most `MAX_DECODED` characters. Other text stays as it is."""
    # Twice, because some instrumentations encode JSON text as a JSON string once more.
    for _ in range(2):
        if not isinstance(value, str) or len(value) > MAX_DECODED:
            break
        text = value.strip()
        if not text.startswith(_BEGINS_JSON):
            break
        try:
            decoded, end = _decode(text)
        except (ValueError, RecursionError):
            break
        if end < len(text):
            break
        value = decoded
    return value


# Faster than `json.loads`, which searches for white space at both ends.
_decode: Final = json.JSONDecoder().raw_decode

ERROR_TEXT: Final = re.compile(
    r"\s*(?:(?:\w+\.)*\w*(?:Error|Exception)\b\s*:"
    r"|error\b\s*(?:[:\-!(\n]|$)"
    r"|error (?:executing|running|calling|invoking|occurred|while|during)\b"
    r"|an (?:unexpected )?error occurred\b"
    r"|traceback \(most recent call last\))",
    re.IGNORECASE,
)
_FAILED_STATES: Final = frozenset(("error", "failed", "failure"))
_NO_ERROR: Final = frozenset(("", "false", "n/a", "none", "null"))
_IS_ERROR: Final = ("isError", "is_error")
_NOTHING_READ: Final = frozenset(("status", "error_message"))
_ONLY_ERROR: Final = frozenset(("status", "message"))
_CODES: Final = ("status_code", "statusCode")


def tells_failure(result: Mapping[str, Json], tool: str) -> bool:
    """Return whether a field at the top of the result of `tool` says that the call failed.

    In the result of a tool that reads, `status` may be the value that was asked for, which is no failure. Only where
    nothing stands beside it but an error message, as in Google ADK's form, it is one. `errors`, and `ok` that is false,
    may be the verdict of a tool that judges.
    """
    status = result.get("status")
    return (
        _is_error(result.get("error"))
        or result.get("success") is False
        or (_is_adverse(result) and not tool_name(tool).judges)
        or any(result.get(key) is True for key in _IS_ERROR)
        or any(isinstance(code, int) and 400 <= code <= 599 for code in map(result.get, _CODES))
        or (
            isinstance(status, str)
            and status.lower() in _FAILED_STATES
            and (
                not tool_name(tool).reads
                or result.keys() == _NOTHING_READ
                or (status.lower() == "error" and result.keys() == _ONLY_ERROR)
            )
        )
    )


def _is_adverse(result: Mapping[str, Json]) -> bool:
    """Return whether a result tells of a failure of the tool, or of faults in what the tool looked at."""
    return _is_error(result.get("errors")) or result.get("ok") is False


def _is_error(value: Json) -> bool:
    """Return whether the value of a field for errors stands for one. A fraction is a measure, such as of accuracy."""
    if isinstance(value, str):
        return value.strip().lower() not in _NO_ERROR
    return bool(value) and not isinstance(value, float)
