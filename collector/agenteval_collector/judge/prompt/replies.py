"""Describe the shapes of replies as JSON schemas, and read a reply from its text.

The schemas are those that strict structured outputs take. There, every property is required, no other is allowed, and
nothing says more than the type. The range of a number is not sent. It stands in the description, and is checked here.
If there must be one answer for each thing, each has a property of its own. A list could have too few.

A reply is one JSON object. What a model thinks or says around it is passed over, as small and reasoning models do that
whatever they are told: the last object with the mark is the reply, and nobody but the judge knows the mark. The object
may stand in a Markdown fence that opens with ``` or ```json and may lack its end, as in the published code. Everything
else is Malformed, in words that tell the judge what is wrong and
where. Nothing is repaired, clamped or filled in.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from jsonschema import Draft202012Validator, ValidationError

from agenteval_collector.judge.ports import Malformed, Question, Reply
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Json

Schema = dict[str, Json]

TEXT: Final[Schema] = {"type": "string"}
REASON: Final[Schema] = {"type": "string", "description": "Why, in one or two sentences of plain English."}

MARK: Final = "canary"
"""The property by which a reply shows that the judge read the instructions. Its name is part of each question."""
MAX_REPLY_CHARACTERS: Final = 65_536
_SHOWN: Final = 80
"""Characters of a value in an error message. A key may be as long as the reply."""


def number(worst: float, best: float, description: str) -> Schema:
    """Describe a number from `worst` to `best`, whichever of the two is larger."""
    return {"type": "number", "description": description, "minimum": min(worst, best), "maximum": max(worst, best)}


def whole(worst: int, best: int, description: str) -> Schema:
    """Describe a whole number in this range."""
    return {**number(worst, best, description), "type": "integer"}


SCORE: Final[Schema] = number(0.0, 1.0, "From 0 (worst) to 1 (best).")


def object_schema(**properties: Schema) -> Schema:
    """Describe an object with exactly these properties, in this order.

    The order matters, as a judge that reasons first scores better.
    """
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
    """Make the schema that is sent, without the keywords that strict structured outputs do not take."""
    sent = {key: value for key, value in schema.items() if key not in ("minimum", "maximum")}
    if isinstance(properties := sent.get("properties"), dict):
        sent["properties"] = {name: strict(cast("Schema", inner)) for name, inner in properties.items()}
    if isinstance(items := sent.get("items"), dict):
        sent["items"] = strict(items)
    return sent


def decode(text: str, question: Question, mark: str) -> Reply:
    """Read the reply in `text`, without its mark. Raises Malformed."""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise Malformed(f"the reply has {len(text)} characters, at most {MAX_REPLY_CHARACTERS} are read")
    try:
        value = _parse(text)
        if not isinstance(value, dict):
            raise Malformed("the reply must be a JSON object")
        if value.pop(MARK, None) != mark:
            raise Malformed(f"the property {MARK!r} must be the string that the instructions say")
        error = next(Draft202012Validator(question.schema).iter_errors(value), None)
    except RecursionError:
        raise Malformed("the reply is nested too deeply") from None
    if error is not None:
        raise Malformed(_in_words(error))
    if question.check is not None:
        question.check(value)
    return value


def _parse(text: str) -> Any:
    reply = _said(text)
    try:
        try:
            value = _DECODER.decode(_unfenced(reply))
        except json.JSONDecodeError:
            # A reason may quote a mark behind thoughts, so the whole text is looked at too.
            value = _marked(reply) or _marked(text)
            if value is None:
                raise
        # The parser accepts numbers beyond the floats, and lone surrogates. Nothing behind it takes them as JSON.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(f"the reply must be JSON and nothing else: {cut(str(error), _SHOWN)}") from None
    return value


_THOUGHT: Final = ("</think>", "</thinking>", "</reasoning>", "</thought>", "<|message|>", "◁/think▷", "[/THINK]")
"""Marks behind a model's thoughts: those of DeepSeek, Qwen, Anthropic's prompts, gpt-oss, Kimi, Magistral."""
_ATTEMPTS: Final = 100
"""Places of a reply at which its object may begin and is looked for: the last ones before its mark."""


def _said(text: str) -> str:
    """Return what a model says after its thoughts, without the space and the byte order mark around it."""
    begins = max(text.rfind(mark) + len(mark) if mark in text else 0 for mark in _THOUGHT)
    return text[begins:].strip().strip("\ufeff").strip()


def _marked(text: str) -> Any:
    """Return the last object in a text that has the mark's property, whatever stands around it; None without one."""
    begin = text.rfind(f'"{MARK}"')
    for _ in range(_ATTEMPTS):
        if begin < 0 or (begin := text.rfind("{", 0, begin)) < 0:
            return None
        try:
            value, _ = _DECODER.raw_decode(text, begin)
        except json.JSONDecodeError:
            continue
        if MARK in value:
            return value
    return None


def _unfenced(text: str) -> str:
    opening, newline, rest = text.partition("\n")
    if newline and opening.rstrip().lower() in ("```json", "```"):
        return rest.strip().removesuffix("```")
    return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Malformed(f"a key stands twice in the object with {cut(', '.join(fields), _SHOWN)}")
    return fields


def _no_number(constant: str) -> NoReturn:
    raise Malformed(f"{constant} is no number")


# Stricter than the parser alone, which would accept NaN, and keep only the last of two equal keys.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number)


def _in_words(error: ValidationError) -> str:
    """Write the error with its place and a short form of the value."""
    value = repr(error.instance)
    message = error.message.replace(value, cut(value, _SHOWN))
    # A path begins with `$`, which the judge need not know.
    return f"reply{error.json_path[1:]}: {cut(message, 2 * _SHOWN)}"
