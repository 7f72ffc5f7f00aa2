"""The shapes of replies, as JSON schemas that strict structured outputs take.

Strict means: every property is required, no other is allowed, and nothing says more than the type, one to a property.
What a number may be stands in its description; that it is so is checked here (checks.py), never by the endpoint. Where
there have to be as many answers as there are things, each has a property of its own: a list could have too few.
"""

from typing import Final

from otel_agenteval.model import Json

Schema = dict[str, Json]

TEXT: Final[Schema] = {"type": "string"}
REASON: Final[Schema] = {"type": "string", "description": "Why, in one or two sentences of plain English."}
SCORE: Final[Schema] = {"type": "number", "description": "From 0 (worst) to 1 (best)."}


def record(**properties: Schema) -> Schema:
    """An object with exactly these properties, in this order: a judge that reasons first scores better."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def listing(items: Schema, description: str) -> Schema:
    """An array of `items`."""
    return {"type": "array", "items": items, "description": description}


def choice(*values: str) -> Schema:
    """One of these strings."""
    return {"type": "string", "enum": list(values)}
