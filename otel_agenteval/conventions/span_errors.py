"""Read whether a span failed, and with what words."""

import re

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_structure, known_text
from otel_agenteval.conventions.spans import STATUS_ERROR, STATUS_OK, EventRecord, SpanRecord
from otel_agenteval.detectors.tool_results import ERROR_TEXT, tells_failure
from otel_agenteval.model import Json

_WITHHELD = re.compile(r"\bredacted\b", re.IGNORECASE)
_CANCELLED = frozenset(("AbortError", "CancelledError", "ClientDisconnect", "GeneratorExit"))
# LangGraph's and Pydantic AI's.
_STEERING = frozenset(("GraphInterrupt", "NodeInterrupt", "ParentCommand", "ApprovalRequired", "CallDeferred"))
_ERROR_TEXTS = ("error", "error_message", "message", "detail")


def span_error(span: SpanRecord) -> str | None:
    """Return the error of a failed span: what its exception said, else its status, else the error's type.

    An exception event alone may have been handled, and makes no failure, but `error.type` does. Exceptions by which a
    framework hands over or waits for a person are no failures.
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
    """Return whether a span ended because whoever waited for it went away."""
    return not _says_nothing(span) and _ended_by(span, _CANCELLED)


def _says_nothing(span: SpanRecord) -> bool:
    """Return whether a span has nothing that could tell of a failure, as most have not."""
    return span.status != STATUS_ERROR and not span.events and semconv.ERROR_TYPE not in span.attributes


def _ended_by(span: SpanRecord, exceptions: frozenset[str]) -> bool:
    kinds = [event.attributes.get(semconv.EXCEPTION_TYPE) for event in span.events]
    kinds.append(span.attributes.get(semconv.ERROR_TYPE))
    return any(isinstance(kind, str) and kind.rpartition(".")[2] in exceptions for kind in kinds)


def is_explained(span: SpanRecord) -> bool:
    """Return whether an exception or the status of a span says more than a type of error."""
    return bool(_said(known_text(span.status_message)) or any(_said(_message(event)) for event in span.events))


def tells_of(span: SpanRecord, text: str) -> bool:
    """Return whether `text` is what an exception of a span, or its status, says went wrong."""
    status = span.status_message if span.status == STATUS_ERROR else ""
    # Statuses are written as the exception's type and message.
    return status == text or status.endswith(f": {text}") or any(_message(event) == text for event in span.events)


def result_error(result: Json, tool: str) -> str | None:
    """Return the error that a result of `tool` tells of, by its fields or as "Error: ..."; else None."""
    if isinstance(result, str):
        if ERROR_TEXT.match(result):
            return result
        if not result.startswith("{"):
            return None
        result = decode_structure(result)
    if not isinstance(result, dict):
        return None
    if tells_failure(result, tool):
        texts = (known_text(result.get(key)) for key in _ERROR_TEXTS)
        return next(filter(None, texts), "error")
    return None


def _message(event: EventRecord) -> str | None:
    if event.name != semconv.EXCEPTION_EVENT:
        return None
    return known_text(event.attributes.get(semconv.EXCEPTION_MESSAGE))


def _said(text: str | None) -> str | None:
    return None if text is None or _WITHHELD.search(text) else text
