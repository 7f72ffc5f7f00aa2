"""From the text of a reply to the reply: nothing is repaired, clamped or filled in.

Taken is one JSON object, also in a Markdown fence that opens with ``` or ```json and may lack its end, as the published
code takes it. Everything else is Malformed, with words for the judge: what is wrong and where.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn, TypeGuard, cast

from agenteval_collector.judge.port import Malformed, Question, Reply
from otel_agenteval.model import Json

CANARY = "canary"
"""The property by which a reply shows that the instructions were read."""

MAX_REPLY_CHARACTERS = 65_536


def decode(text: str, question: Question, canary: str) -> Reply:
    """The reply that `text` writes, without its canary. Raises Malformed."""
    value = _parse(text)
    if not isinstance(value, dict):
        raise Malformed(f"the reply must be a JSON object, not {_shown(value)}")
    if value.pop(CANARY, None) != canary:
        raise Malformed(f"the property {CANARY!r} must be the string that the instructions say")
    reply = cast("dict[str, Json]", _conforming(value, question.schema, "reply"))
    question.check(reply)
    return reply


def unit(value: Json, place: str) -> float:
    """`value` as a score. Raises Malformed outside [0, 1]."""
    return within(value, 0.0, 1.0, place)


def within(value: Json, lowest: float, highest: float, place: str) -> float:
    """`value` as a number of a scale. Raises Malformed where it is none, or not from `lowest` to `highest`."""
    if not _is_number(value) or not lowest <= value <= highest:
        raise Malformed(f"{place} must be a number from {lowest:g} to {highest:g}, not {_shown(value)}")
    # -0.0 is 0.0
    return float(value) + 0.0


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse(text: str) -> Any:
    if len(text) > MAX_REPLY_CHARACTERS:
        raise Malformed(f"the reply has {len(text)} characters, at most {MAX_REPLY_CHARACTERS} are read")
    try:
        return json.loads(_unfenced(text.strip()), object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise Malformed(f"the reply must be JSON and nothing else: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Malformed("the reply is nested too deeply") from None
    except Malformed:
        raise
    except ValueError:
        # Python reads no integer of more than 4300 digits.
        raise Malformed("the reply holds a number of too many digits") from None


def _unfenced(text: str) -> str:
    opening, newline, rest = text.partition("\n")
    if newline and opening.rstrip().lower() in ("```json", "```"):
        return rest.strip().removesuffix("```")
    return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(repeated, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise Malformed(f"the key {_shown(repeated)} stands twice in an object")
    return found


def _no_number(constant: str) -> NoReturn:
    raise Malformed(f"{constant} is no number")


def _conforming(value: Any, schema: Mapping[str, Any], place: str) -> Json:
    """`value`. Raises Malformed where it is not what `schema` says."""
    kind = schema["type"]
    if not _IS[kind](value):
        raise Malformed(f"{place} must be of type {kind}, not {_shown(value)}")
    if isinstance(value, dict):
        return _conforming_object(value, schema, place)
    if isinstance(value, list):
        return [_conforming(item, schema["items"], f"{place}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, str) and not value.isascii() and _has_surrogates(value):
        raise Malformed(f"{place} holds half of a surrogate pair: {_shown(value)}")
    if "enum" in schema and value not in schema["enum"]:
        allowed = " or ".join(map(json.dumps, schema["enum"]))
        raise Malformed(f"{place} must be {allowed}, not {_shown(value)}")
    return cast("Json", value)


def _conforming_object(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> Json:
    properties = schema["properties"]
    if unknown := next((key for key in value if key not in properties), None):
        raise Malformed(f"{place} must not have the property {_shown(unknown)}")
    found: dict[str, Json] = {}
    for key, inner in properties.items():
        if key not in value:
            raise Malformed(f"{place}.{key} is missing")
        found[key] = _conforming(value[key], inner, f"{place}.{key}")
    return found


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


_IS = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    # Compared, because Python converts no integer beyond the floats.
    "number": lambda value: _is_number(value) and abs(value) <= sys.float_info.max,
}


def _shown(value: Any) -> str:
    """A value in an error message, short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
