"""The document about the collector itself: its versions, and its judge."""

import platform
from importlib.metadata import version

from typing_extensions import TypedDict


class JudgeDocument(TypedDict):
    """The judge: its model, and why traces wait for it; null where nothing is wrong."""

    model: str
    trouble: str | None


class CollectorDocument(TypedDict):
    """A running collector. `judge` is null where none is configured."""

    version: str
    python: str
    opentelemetry: str
    judge: JudgeDocument | None


def collector_document(model: str | None, trouble: str | None) -> CollectorDocument:
    """Return the document of this process, whose judge is this model; None: it has none."""
    return {
        "version": version("otel-agenteval"),
        "python": platform.python_version(),
        "opentelemetry": version("opentelemetry-sdk"),
        "judge": None if model is None else {"model": model, "trouble": trouble},
    }
