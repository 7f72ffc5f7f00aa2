"""Checks of arguments against a tool's JSON schema. Both may come from an attacker.

No regular expression of a schema runs and nothing is fetched: `pattern`, `format` and `uniqueItems`, which takes
quadratic time, are not applied. References within a schema are replaced by what they refer to. A schema is not used if
it refers to itself or elsewhere, is too large, or is no schema. The work is bounded: the number of values in the schema
times the number of values in the arguments.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import create

from otel_agenteval.model import Json

MAX_SCHEMA = 2_000
"""Values in a schema whose references are replaced. A larger schema is not used."""
MAX_CHARACTERS = 100_000
"""Characters of a schema's text. The newest 256 such texts are remembered."""
MAX_DEPTH = 64
"""Levels of a schema. A deeper schema is not used."""
MAX_WORK = 100_000
"""Bound on the work for one trace: values of schemas times values of arguments."""

_APPLIED: Final = (
    *("additionalProperties", "allOf", "anyOf", "const", "contains", "dependentRequired", "enum", "exclusiveMaximum"),
    *("exclusiveMinimum", "if", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength"),
    *("minProperties", "minimum", "multipleOf", "not", "oneOf", "prefixItems", "properties", "propertyNames"),
    *("required", "type"),
)
_Restricted: Any = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={keyword: Draft202012Validator.VALIDATORS[keyword] for keyword in _APPLIED},
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
_NO_FORMATS: Final = FormatChecker(formats=())


class Uncheckable(Exception):
    """Raised if arguments cannot be checked: their schema is not used, or they are too large."""


class SchemaChecks:
    """Checks the calls of one trace. It stops checking when the checks of the trace take too much work."""

    def __init__(self, work: int = MAX_WORK) -> None:
        self._left = work

    def error(self, arguments: Json, schema: Json) -> str | None:
        """Return how the arguments break the schema; None if they fit. Raises Uncheckable."""
        if not isinstance(schema, dict) or not schema:
            raise Uncheckable
        text = json.dumps(schema)
        found = _validator(text) if len(text) <= MAX_CHARACTERS else None
        if found is None:
            raise Uncheckable
        validator, size = found
        self._left -= size * _size(arguments, self._left)
        if self._left < 0:
            raise Uncheckable
        first = next(iter(validator.iter_errors(arguments)), None)
        return None if first is None else first.message


# Agents offer the same tools in every trace.
@lru_cache(maxsize=256)
def _validator(schema: str) -> tuple[Validator, int] | None:
    """Return a validator of the schema, and the number of values in it; None if the schema is not used."""
    room = _InlinedSchema(json.loads(schema))
    try:
        placed = room.place(room.root)
        Draft202012Validator.check_schema(placed, format_checker=_NO_FORMATS)
    except (Uncheckable, SchemaError):
        return None
    return _Restricted(placed), MAX_SCHEMA - room.left


class _InlinedSchema:
    """Replaces references in a schema. Nested references could make it exponentially large, so its values are
    counted."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self.left = MAX_SCHEMA
        self._whole = root
        self.root = {key: value for key, value in root.items() if key not in ("$defs", "definitions", "$schema", "$id")}

    def place(self, value: Any, level: int = 0) -> Any:
        """Return a copy of the value without references. Raises Uncheckable."""
        self.left -= 1
        if self.left < 0 or level > MAX_DEPTH:
            raise Uncheckable
        if isinstance(value, list):
            return [self.place(item, level + 1) for item in value]
        if not isinstance(value, dict):
            return value
        # These keywords change how a schema is read.
        if any(isinstance(value.get(key), str) for key in ("$schema", "$id", "$dynamicRef")):
            raise Uncheckable
        if isinstance(value.get("patternProperties"), dict):
            raise Uncheckable
        if isinstance(reference := value.get("$ref"), str):
            return self.place(self._referred(reference), level + 1)
        return {key: self.place(item, level + 1) for key, item in value.items()}

    def _referred(self, reference: str) -> Any:
        schema: Any = self._whole
        if not reference.startswith("#/"):
            raise Uncheckable
        for key in reference[2:].split("/"):
            schema = schema.get(key) if isinstance(schema, dict) else None
        if schema is None:
            raise Uncheckable
        return schema


def _size(value: Json, enough: int) -> int:
    """Return the number of values in `value`, itself included. Counting stops above `enough`."""
    pending, size = [value], 0
    while pending and size <= enough:
        item = pending.pop()
        size += 1
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return size
