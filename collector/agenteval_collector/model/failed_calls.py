"""What is said of a model call that failed: the same while its trace runs and when it is complete."""

from typing import Final

from agenteval_collector.model.problem_shape import shape_of
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Json

MAX_QUOTE: Final = 200
"""Characters of telemetry that are quoted at most."""


def quote(text: str) -> str:
    """Return the beginning of a text on one line, without characters that cannot be printed."""
    line = " ".join(
        "".join(character if character.isprintable() else " " for character in text[: 4 * MAX_QUOTE]).split()
    )
    return cut(line, MAX_QUOTE)


def failed_call(model: str | None, error: str, error_type: str | None) -> tuple[str, dict[str, Json]]:
    """Return the reason and the metadata of the finding that the call of a model failed."""
    reason = f"the call of {quote(model or 'the model')} failed: {quote(error)}"
    return reason, {"model": model, "shape": shape_of(error, error_type)}
