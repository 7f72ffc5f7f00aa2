"""Read the error of a span, or of a tool's result."""

import re

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_structure, first_text, known_text
from otel_agenteval.conventions.spans import STATUS_ERROR, STATUS_OK, EventRecord, SpanRecord
from otel_agenteval.detectors.tool_results import ERROR_TEXT, tells_failure
from otel_agenteval.model import Json

_WITHHELD = re.compile(r"\bredacted\b", re.IGNORECASE)
# Python's, JavaScript's, Java's and .NET's. .NET's `TaskCanceledException` is not among them: time limits raise it too.
_CANCELLED = frozenset(
    (
        "AbortError",
        "CancellationException",
        "CancelledError",
        "ClientDisconnect",
        "GeneratorExit",
        "OperationCanceledException",
    )
)
# Exceptions by which LangGraph and Pydantic AI hand over, or wait for a person.
_STEERING = frozenset(("GraphInterrupt", "NodeInterrupt", "ParentCommand", "ApprovalRequired", "CallDeferred"))
_ERROR_TEXTS = ("error", "error_message", "message", "detail")


def span_error(span: SpanRecord) -> str | None:
    """Return the error of a failed span: the words of its exception, else of its status, else the error's type.

    A span failed if its status or `error.type` says so. An exception event alone does not: it may have been handled.
    Exceptions by which a framework hands over, or waits for a person, are no failures.
    """
    if _says_nothing(span) or _ended_by(span, _STEERING):
        return None
    kind = known_text(span.attributes.get(semconv.ERROR_TYPE))
    if span.status != STATUS_ERROR and (kind is None or span.status == STATUS_OK):
        return None
    last = next((event for event in reversed(span.events) if event.name == semconv.EXCEPTION_EVENT), None)
    exception = (_message(last) or known_text(last.attributes.get(semconv.EXCEPTION_TYPE))) if last else None
    return _said(exception) or _said(known_text(span.status_message)) or kind or "error"


def is_cancelled(span: SpanRecord) -> bool:
    """Return whether a span ended because its caller went away."""
    return not _says_nothing(span) and _ended_by(span, _CANCELLED)


def _says_nothing(span: SpanRecord) -> bool:
    """Return whether nothing on a span could tell of a failure. Most spans are like that."""
    return span.status != STATUS_ERROR and not span.events and semconv.ERROR_TYPE not in span.attributes


def _ended_by(span: SpanRecord, exceptions: frozenset[str]) -> bool:
    kinds = [event.attributes.get(semconv.EXCEPTION_TYPE) for event in span.events]
    kinds.append(span.attributes.get(semconv.ERROR_TYPE))
    return any(isinstance(kind, str) and kind.rpartition(".")[2] in exceptions for kind in kinds)


def is_explained(span: SpanRecord) -> bool:
    """Return whether an exception or the status of a span has words, and not only a type of error."""
    return bool(_said(known_text(span.status_message)) or any(_said(_message(event)) for event in span.events))


def tells_of(span: SpanRecord, text: str) -> bool:
    """Return whether `text` is the message of an exception of a span, or of its failed status."""
    status = span.status_message if span.status == STATUS_ERROR else ""
    # SDKs write the status of an exception as its type and its message.
    return status == text or status.endswith(f": {text}") or any(_message(event) == text for event in span.events)


def result_error(result: Json, tool: str) -> str | None:
    """Return the error that a result of `tool` tells of, by its fields or by words like "Error: ..."; else None."""
    if isinstance(result, str):
        if ERROR_TEXT.match(result):
            return result
        if not result.startswith("{"):
            return None
        result = decode_structure(result)
    if isinstance(result, dict) and tells_failure(result, tool):
        return first_text(result, *_ERROR_TEXTS) or "error"
    return None


def _message(event: EventRecord) -> str | None:
    if event.name != semconv.EXCEPTION_EVENT:
        return None
    return known_text(event.attributes.get(semconv.EXCEPTION_MESSAGE))


def _said(text: str | None) -> str | None:
    return None if text is None or _WITHHELD.search(text) else text
