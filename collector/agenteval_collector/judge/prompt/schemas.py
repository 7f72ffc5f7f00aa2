"""The shapes of replies, as JSON schemas that strict structured outputs take.

Strict means: every property is required, no other is allowed, and nothing says more than the type. The range of a
number is left out of what is sent, stands in its description, and is checked here. Where there have to be as many
answers as things, each has a property of its own: a list could have too few.
"""

from collections.abc import Mapping
from typing import Final, cast

from otel_agenteval.model import Json

Schema = dict[str, Json]

TEXT: Final[Schema] = {"type": "string"}
REASON: Final[Schema] = {"type": "string", "description": "Why, in one or two sentences of plain English."}


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
