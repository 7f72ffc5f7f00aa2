"""Read the error of a span, or of a tool's result."""

import json
import re
from collections.abc import Collection

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.conventions.spans import STATUS_ERROR, STATUS_OK, EventRecord, SpanRecord
from otel_agenteval.detectors.call_outcomes import OutcomeReading
from otel_agenteval.model import CallOutcome

_TRACEBACK = "Traceback (most recent call last):"
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
# Exceptions by which LangGraph and Pydantic AI wait for a person, or hand over.
_WAITING = frozenset(("GraphInterrupt", "NodeInterrupt", "ApprovalRequired", "CallDeferred"))
_STEERING = _WAITING | {"ParentCommand"}
_GUARD = re.compile(
    r"Guardrail|ContentPolicyViolation|ContentFilter(?:ed)?(?:Error|Exception)|ModerationError|ToolRejected"
)
"""In the name of an exception: a guardrail did what it is there for (OpenAI Agents SDK, NeMo, LiteLLM, Agno)."""


def span_error(span: SpanRecord) -> str | None:
    """Return the error of a failed span: the words of its exception, else of its status, else the error's type.

    A span failed if its status or `error.type` says so. An exception event alone does not: it may have been handled.
    Exceptions by which a framework hands over or waits for a person, and those of guardrails, are no failures.
    """
    if _says_nothing(span) or _ended_by(span, _STEERING) or is_guarded(span):
        return None
    kind = known_text(span.attributes.get(semconv.ERROR_TYPE))
    if span.status != STATUS_ERROR and (kind is None or span.status == STATUS_OK):
        return None
    last = next((event for event in reversed(span.events) if event.name == semconv.EXCEPTION_EVENT), None)
    exception = (_message(last) or known_text(last.attributes.get(semconv.EXCEPTION_TYPE))) if last else None
    texts = (without_traceback(text) for text in (exception, known_text(span.status_message)))
    return next(filter(None, map(_said, texts)), None) or kind or "error"


def repeats(span: SpanRecord, errors: Collection[str]) -> bool:
    """Return whether the status of a failed span says what one of `errors` says, and nothing else tells of a failure.

    OpenInference's processor for Vercel's AI SDK writes the first error of a trace on the spans that end after it.
    """
    is_bare = not span.events and semconv.ERROR_TYPE not in span.attributes
    return span.status == STATUS_ERROR and span.status_message in errors and is_bare


def error_type(span: SpanRecord) -> str | None:
    """Return the type of the exception that a failed span ended by; None if no type was recorded."""
    if _says_nothing(span):
        return None
    kinds = (event.attributes.get(semconv.EXCEPTION_TYPE) for event in reversed(span.events))
    return next(
        (text for kind in (*kinds, span.attributes.get(semconv.ERROR_TYPE)) if (text := known_text(kind))), None
    )


def is_cancelled(span: SpanRecord) -> bool:
    """Return whether a span ended because its caller went away."""
    return not _says_nothing(span) and _ended_by(span, _CANCELLED)


def is_guarded(span: SpanRecord) -> bool:
    """Return whether a guardrail ended a span."""
    return not _says_nothing(span) and any(_GUARD.search(kind) for kind in _exceptions(span))


def outcome_by_span(span: SpanRecord) -> OutcomeReading | None:
    """Return what a span itself says of its call, by its status and its exceptions. None if it says nothing."""
    if _says_nothing(span):
        return None
    for outcome, applies in (
        (CallOutcome.WAITING, _ended_by(span, _WAITING)),
        (CallOutcome.CANCELLED, is_cancelled(span)),
        (CallOutcome.REFUSED, is_guarded(span)),
    ):
        if applies:
            return OutcomeReading(outcome, "exception")
    error = span_error(span)
    return None if error is None else OutcomeReading(CallOutcome.FAILED, "status", error)


def _says_nothing(span: SpanRecord) -> bool:
    """Return whether nothing on a span could tell of a failure. Most spans are like that."""
    return span.status != STATUS_ERROR and not span.events and semconv.ERROR_TYPE not in span.attributes


def _ended_by(span: SpanRecord, exceptions: frozenset[str]) -> bool:
    return any(kind in exceptions for kind in _exceptions(span))


def _exceptions(span: SpanRecord) -> list[str]:
    """Return the names of the exceptions of a span, without their modules."""
    kinds = [event.attributes.get(semconv.EXCEPTION_TYPE) for event in span.events]
    kinds.append(span.attributes.get(semconv.ERROR_TYPE))
    return [kind.rpartition(".")[2] for kind in kinds if isinstance(kind, str)]


def is_explained(span: SpanRecord) -> bool:
    """Return whether an exception or the status of a span has words, and not only a type of error."""
    return bool(_said(known_text(span.status_message)) or any(_said(_message(event)) for event in span.events))


def tells_of(span: SpanRecord, text: str) -> bool:
    """Return whether `text` is the message of an exception of a span, or of its failed status."""
    status = span.status_message if span.status == STATUS_ERROR else ""
    if not status and not span.events:
        return False
    # SDKs write the status of an exception as its type and its message, clients put a code before it.
    ends = status.endswith((f": {text}", f" - {text}"))
    if status == text or ends:
        return True
    messages = [message for event in span.events if (message := _message(event))]
    # Clients write the whole response of the server, which has the text as one of its values.
    quoted = (f": {text!r}", f": {json.dumps(text)}")
    return any(message == text or any(form in message for form in quoted) for message in messages)


def begins_like(span: SpanRecord, text: str) -> bool:
    """Return whether `text` is an exception of a span as Python writes it: its type stands first."""
    return any(re.match(rf"(?:[\w.]+\.)?{re.escape(kind)}\b[(:]", text) for kind in _exceptions(span) if kind)


def without_traceback(error: str | None) -> str | None:
    """Return the words of an error before Python's traceback. Words that only lead to it, such as `Code output:`, have
    its last line behind them. If nothing is before it, the last line is all."""
    before, message, traceback = (error or "").partition(_TRACEBACK)
    if not message:
        return error
    before, last = before.strip(), traceback.strip().rpartition("\n")[2]
    return f"{before} {last}".strip() if not before or before.endswith(":") else before


def _message(event: EventRecord) -> str | None:
    if event.name != semconv.EXCEPTION_EVENT:
        return None
    return known_text(event.attributes.get(semconv.EXCEPTION_MESSAGE))


def _said(text: str | None) -> str | None:
    return None if text is None or _WITHHELD.search(text) else text
