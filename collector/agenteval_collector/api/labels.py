"""Labels by people: the same rules over HTTP and over gRPC."""

from collections.abc import Sequence
from typing import Any, Final, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from agenteval_collector.api.documents import OutcomeDocument, SessionDocument, TraceDocument
from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.wire import found, id_of, trace_id_of
from agenteval_collector.model.reports import Label
from agenteval_collector.runtime.errors import InvalidRequest

MAX_NOTE_LENGTH: Final = 10_000


@with_config(ConfigDict(strict=True, extra="forbid"))
class LabelRequest(TypedDict):
    """A person's label of a trace, or else of a session: the right `value` of the score `name`, from 0 (fail) to 1
    (pass). `drawn`: it came from `/api/v1/review/next`, so that the label speaks for others."""

    trace_id: NotRequired[str | None]
    session_id: NotRequired[str | None]
    name: str
    value: float
    author: NotRequired[str | None]
    note: NotRequired[str | None]
    drawn: NotRequired[bool]


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


def write_label(queries: Queries, reports: Reports, body: LabelRequest) -> TraceDocument | SessionDocument:
    """Keep the label that is asked for; return the trace or the session with it, and with what the judge says."""
    trace_id, session_id = body.get("trace_id"), body.get("session_id")
    if bool(trace_id) == bool(session_id):
        raise InvalidRequest("give either trace_id or session_id")
    told = said(body["name"], body["value"], body.get("author") or "", body.get("note") or "")
    label = Label(
        trace_id=trace_id_of(trace_id) if trace_id else None,
        session_id=id_of("session_id", session_id) if session_id else None,
        drawn=body.get("drawn", False),
        **told,
    )
    keep_label(queries, reports, label)
    if label.trace_id is not None:
        return found(queries.trace(label.trace_id), f"trace {label.trace_id}")
    return found(queries.session(label.session_id or ""), f"session {label.session_id!r}")
