"""The shapes of replies, as JSON schemas that strict structured outputs take, and the reading of a reply from its text.

Strict means: every property is required, no other is allowed, and nothing says more than the type. The range of a
number is left out of what is sent, stands in its description, and is checked here. Where there have to be as many
answers as things, each has a property of its own: a list could have too few.

Taken is one JSON object, also in a Markdown fence that opens with ``` or ```json and may lack its end, as the published
code takes it. Everything else is Malformed, with words for the judge: what is wrong and where. Nothing is repaired,
clamped or filled in.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from jsonschema import Draft202012Validator, ValidationError

from agenteval_collector.judge.ports import Malformed, Question, Reply
from otel_agenteval.model import Json
from otel_agenteval.text import cut

Schema = dict[str, Json]

TEXT: Final[Schema] = {"type": "string"}
REASON: Final[Schema] = {"type": "string", "description": "Why, in one or two sentences of plain English."}

CANARY: Final = "canary"
"""The property by which a reply shows that the instructions were read."""
MAX_REPLY_CHARACTERS: Final = 65_536
_SHOWN: Final = 40
"""Characters of a value in an error message."""


def number(worst: float, best: float, description: str) -> Schema:
    """Describe a number from `worst` to `best`, whichever is larger."""
    return {"type": "number", "description": description, "minimum": min(worst, best), "maximum": max(worst, best)}


def whole(worst: int, best: int, description: str) -> Schema:
    """Describe a whole number in this range."""
    return {**number(worst, best, description), "type": "integer"}


SCORE: Final[Schema] = number(0.0, 1.0, "From 0 (worst) to 1 (best).")


def record(**properties: Schema) -> Schema:
    """Describe an object with exactly these properties, in this order: a judge that reasons first scores better."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def listing(items: Schema, description: str) -> Schema:
    """Describe an array of `items`."""
    return {"type": "array", "items": items, "description": description}


def choice(*values: str) -> Schema:
    """Describe one of these strings."""
    return {"type": "string", "enum": list(values)}


def strict(schema: Mapping[str, Json]) -> Schema:
    """Make the schema that is sent: without the keywords that strict structured outputs do not take."""
    sent = {key: value for key, value in schema.items() if key not in ("minimum", "maximum")}
    if isinstance(properties := sent.get("properties"), dict):
        sent["properties"] = {name: strict(cast("Schema", inner)) for name, inner in properties.items()}
    if isinstance(items := sent.get("items"), dict):
        sent["items"] = strict(items)
    return sent


def decode(text: str, question: Question, canary: str) -> Reply:
    """Read the reply that `text` writes, without its canary. Raises Malformed."""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise Malformed(f"the reply has {len(text)} characters, at most {MAX_REPLY_CHARACTERS} are read")
    try:
        value = _parse(text)
        if not isinstance(value, dict):
            raise Malformed(f"the reply must be a JSON object, not {_shown(value)}")
        if value.pop(CANARY, None) != canary:
            raise Malformed(f"the property {CANARY!r} must be the string that the instructions say")
        error = next(Draft202012Validator(question.schema).iter_errors(value), None)
    except RecursionError:
        raise Malformed("the reply is nested too deeply") from None
    if error is not None:
        raise Malformed(_in_words(error))
    if question.check is not None:
        question.check(value)
    return value


def _parse(text: str) -> Any:
    try:
        # Stricter than the parser: a repeated key, NaN and numbers of any length would be taken, and read otherwise.
        value = json.loads(
            _unfenced(text.strip()),
            object_pairs_hook=_unique,
            parse_constant=_no_number,
            parse_int=_number,
            parse_float=_number,
        )
        # A number beyond the floats and half of a surrogate pair are JSON to the parser, and to nothing behind it.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        raise Malformed(f"the reply must be JSON and nothing else: {error.msg} at character {error.pos}") from None
    except UnicodeEncodeError:
        raise Malformed("the reply holds half of a surrogate pair") from None
    except Malformed:
        raise
    except ValueError:
        raise Malformed("the reply holds a number that is too large") from None
    return value


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


def _number(text: str) -> float:
    # -0.0 is 0.0: a sum with it is.
    return float(text) + 0.0


def _no_number(constant: str) -> NoReturn:
    raise Malformed(f"{constant} is no number")


def _in_words(error: ValidationError) -> str:
    """Word the error with its place: its own words repeat the whole value."""
    place = "reply" + error.json_path[1:]
    value: Any = error.instance
    expected: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "required":
            return f"{place}.{next(key for key in expected if key not in value)} is missing"
        case "additionalProperties":
            unknown = next(key for key in value if key not in schema["properties"])
            return f"{place} must not have the property {_shown(unknown)}"
        case "enum":
            return f"{place} must be {' or '.join(map(json.dumps, expected))}, not {_shown(value)}"
        case "minimum" | "maximum":
            return f"{place} must be a number from {schema['minimum']:g} to {schema['maximum']:g}, not {_shown(value)}"
    return f"{place} must be of {error.validator} {expected}, not {_shown(value)}"


def _shown(value: Any) -> str:
    """Write a value into an error message, short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return cut(json.dumps(value), _SHOWN)
