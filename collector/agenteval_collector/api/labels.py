"""Labels by people: the same rules over HTTP and over gRPC."""

from collections.abc import Sequence
from typing import Any, Final, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from agenteval_collector.api.documents import OutcomeDocument, TraceDocument
from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.wire import found, id_of, trace_id_of
from agenteval_collector.model.reports import Label
from agenteval_collector.runtime.errors import InvalidRequest

MAX_NOTE_LENGTH: Final = 10_000


@with_config(ConfigDict(strict=True, extra="forbid"))
class LabelRequest(TypedDict):
    """What a person says that the score `name` of a trace should have been, from 0 (fail) to 1 (pass). `drawn`: the
    trace came from `/api/v1/review/next`, so that the label speaks for others."""

    trace_id: str
    name: str
    value: float
    author: NotRequired[str | None]
    note: NotRequired[str | None]
    drawn: NotRequired[bool]


_REQUEST: Final = TypeAdapter(LabelRequest)


def said(name: str, value: float | None, author: str, note: str) -> dict[str, Any]:
    """Return the fields of a label that say what somebody said. Raises InvalidRequest naming what cannot be taken."""
    if value is None or not 0.0 <= value <= 1.0:
        raise InvalidRequest(f"value is {'absent' if value is None else value}, not a number from 0 to 1")
    if len(note) > MAX_NOTE_LENGTH:
        raise InvalidRequest(f"note has {len(note)} characters, more than {MAX_NOTE_LENGTH}")
    return {
        "name": id_of("name", name),
        "value": value,
        "author": id_of("author", author) if author else None,
        "note": note or None,
    }


def keep_label(queries: Queries, reports: Reports, label: Label) -> None:
    """Keep a label of a trace, or of a session. Raises NotFound for an unknown one, and InvalidRequest where it has no
    outcome of that name: a misspelt label would never be compared with anything."""
    subject, outcomes = _labelled(queries, label)
    names = sorted({outcome["name"] for outcome in outcomes})
    if label.name not in names:
        which = ", ".join(names) if names else "no outcome yet"
        raise InvalidRequest(f"name is {label.name[:64]!r}; the {subject} has {which}")
    reports.label(label)


def _labelled(queries: Queries, label: Label) -> tuple[str, Sequence[OutcomeDocument]]:
    """Return what a label is about, in a word, and its outcomes."""
    if label.trace_id is not None:
        return "trace", found(queries.trace(label.trace_id), f"trace {label.trace_id}")["outcomes"]
    session = found(queries.session(label.session_id or ""), f"session {label.session_id!r}")
    return "session", session["outcomes"]


def write_label(queries: Queries, reports: Reports, body: bytes) -> TraceDocument:
    """Keep the label that a `LabelRequest` in JSON asks for; return the trace with it, and with what the judge says."""
    try:
        asked = _REQUEST.validate_json(body)
    except ValidationError as error:
        [first, *_] = error.errors(include_input=False, include_url=False)
        place = ".".join(map(str, first["loc"])) or "the body"
        raise InvalidRequest(f"{place[:64]}: {first['msg']}") from error
    trace_id = trace_id_of(asked["trace_id"])
    told = said(asked["name"], asked["value"], asked.get("author") or "", asked.get("note") or "")
    keep_label(queries, reports, Label(trace_id=trace_id, drawn=asked.get("drawn", False), **told))
    return found(queries.trace(trace_id), f"trace {trace_id}")
