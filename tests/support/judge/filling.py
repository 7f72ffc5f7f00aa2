"""Fills in a JSON schema, so that a judge can be stood in for without knowing its questions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_DEEPEST = 50


def fill(schema: Schema, score: float) -> Any:
    """A value that follows `schema`, as far as it uses the keywords that strict schemas may have.

    Constants and the first of each enumeration; numbers are `score`, or lie at that share of the way from `minimum` to
    `maximum`; true from 0.5 on; arrays as short as allowed, but with one element where that is allowed; strings that
    say nothing. `$ref` is followed within the document. Raises ValueError for a schema without end.
    """
    return _fill(schema, score, schema, 0)


def _fill(schema: Schema, score: float, root: Schema, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"the schema is nested more than {_DEEPEST} deep")

    def filled(part: Schema) -> Any:
        return _fill(part, score, root, depth + 1)

    value: Any = None
    if "$ref" in schema:
        value = filled(_resolve(schema["$ref"], root))
    elif "const" in schema:
        value = schema["const"]
    elif "enum" in schema:
        value = schema["enum"][0]
    elif options := schema.get("anyOf", schema.get("oneOf")):
        value = filled(next((option for option in options if option.get("type") != "null"), options[0]))
    else:
        match _type(schema):
            case "object":
                value = {name: filled(part) for name, part in schema.get("properties", {}).items()}
            case "array":
                length = min(max(schema.get("minItems", 1), 1), schema.get("maxItems", 1_000_000))
                value = [filled(schema.get("items", {})) for _ in range(length)]
            case "number":
                value = _number(schema, score)
            case "integer":
                value = round(_number(schema, score))
            case "boolean":
                value = score >= 0.5
            case "string":
                value = "as it stands".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
    return value


def _type(schema: Schema) -> str | None:
    kind = schema.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        kind = next((one for one in kind if one != "null"), "null")
    return kind or ("object" if "properties" in schema else None)


def _number(schema: Schema, score: float) -> float:
    if "minimum" in schema and "maximum" in schema:
        return float(schema["minimum"] + score * (schema["maximum"] - schema["minimum"]))
    return score


def _resolve(reference: str, root: Schema) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found[step]
    return found


def find_schema(text: str) -> Schema | None:
    """The first JSON object in `text` that is a schema of an object; None where there is none."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            if isinstance(found, dict) and isinstance(found.get("properties"), dict):
                return found
        at = text.find("{", end)
    return None
