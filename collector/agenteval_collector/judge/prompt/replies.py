"""The shapes of replies, as JSON schemas that strict structured outputs take, and the reading of a reply from its text.

Strict means: every property is required, no other is allowed, and nothing says more than the type. The range of a
number is left out of what is sent, stands in its description, and is checked here. Where there have to be as many
answers as things, each has a property of its own: a list could have too few.

Taken is one JSON object, also in a Markdown fence that opens with ``` or ```json and may lack its end, as the published
code takes it. Everything else is Malformed, with words for the judge: what is wrong and where. Nothing is repaired,
clamped or filled in.
"""

import json
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
_SHOWN: Final = 80
"""Characters of a value in an error message: a key may be as long as the reply."""


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
            raise Malformed("the reply must be a JSON object")
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
        # Stricter than the parser: a repeated key and NaN would be taken, and read otherwise.
        value = json.loads(_unfenced(text.strip()), object_pairs_hook=_unique, parse_constant=_no_number)
        # A number beyond the floats and half of a surrogate pair are JSON to the parser, and to nothing behind it.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(f"the reply must be JSON and nothing else: {cut(str(error), _SHOWN)}") from None
    return value


def _unfenced(text: str) -> str:
    opening, newline, rest = text.partition("\n")
    if newline and opening.rstrip().lower() in ("```json", "```"):
        return rest.strip().removesuffix("```")
    return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Malformed(f"a key stands twice in the object with {cut(', '.join(found), _SHOWN)}")
    return found


def _no_number(constant: str) -> NoReturn:
    raise Malformed(f"{constant} is no number")


def _in_words(error: ValidationError) -> str:
    """Word the error with its place, and with a short form of the value."""
    value = repr(error.instance)
    message = error.message.replace(value, cut(value, _SHOWN))
    return f"reply{error.json_path[1:]}: {cut(message, 2 * _SHOWN)}"
