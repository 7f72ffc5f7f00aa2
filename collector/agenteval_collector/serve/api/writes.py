"""Keep labels, mark problems, ask the judge and delete, by the same rules over HTTP and gRPC."""

from collections.abc import Sequence
from typing import Final, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS, Rejudging
from agenteval_collector.model.labels import Label
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api import wire
from agenteval_collector.serve.api.answers import DeletionDocument, JudgingDocument
from agenteval_collector.serve.api.document import document
from agenteval_collector.serve.api.figure_documents import ProblemDocument, SplitDocument
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.trace_documents import SessionDocument, TraceDocument
from otel_agenteval.internal.text import storable

MAX_NOTE_LENGTH: Final = 10_000

_strict = with_config(ConfigDict(strict=True, extra="forbid"))
"""Makes a body strict: a misspelt field, or one of another type, is refused."""


@_strict
class LabelRequest(TypedDict):
    """A person's label of a trace or of a session: the right `value` of the score `name`, from 0 (fail) to 1 (pass).
    `drawn` says that the subject came from `/api/v1/review/next`, so that the label counts for pass rates."""

    trace_id: NotRequired[str | None]
    session_id: NotRequired[str | None]
    name: str
    value: float
    author: NotRequired[str | None]
    note: NotRequired[str | None]
    drawn: NotRequired[bool]


class LabelFields(TypedDict):
    """The checked fields of a label, apart from what it is about."""

    name: str
    value: float
    author: str | None
    note: str | None


def label_fields(name: str, value: float | None, author: str, note: str) -> LabelFields:
    """Return the checked fields of a label. Raises InvalidRequest naming the field that is wrong."""
    if value is None or not 0.0 <= value <= 1.0:
        raise InvalidRequest(f"value is {'absent' if value is None else value}, not a number from 0 to 1")
    if len(note) > MAX_NOTE_LENGTH:
        raise InvalidRequest(f"note has {len(note)} characters, more than {MAX_NOTE_LENGTH}")
    return {
        "name": wire.id_of("name", name),
        "value": value,
        "author": wire.optional_id("author", author),
        "note": note or None,
    }


def keep_label(queries: Queries, gate: Gate, label: Label) -> None:
    """Keep a label of a trace or a session.

    Raises NotFound for an unknown one, and InvalidRequest if it has no outcome of that name: a misspelt label would
    never be compared with anything.
    """
    names = sorted({outcome["name"] for outcome in _labelled(queries, label)["outcomes"]})
    if label.name not in names:
        subject, which = "session" if label.trace_id is None else "trace", ", ".join(names) or "no outcome yet"
        later = "; it has goal_success once it is idle or ended, where there is a judge"
        why = later if label.trace_id is None and label.name == GOAL_SUCCESS else ""
        raise InvalidRequest(f"name is {label.name[:64]!r}; the {subject} has {which}{why}")
    gate.label(label)


def write_label(queries: Queries, gate: Gate, body: LabelRequest) -> TraceDocument | SessionDocument:
    """Keep the label in the body; return the trace or the session with all its labels and outcomes."""
    trace_id, session_id = body.get("trace_id"), body.get("session_id")
    if bool(trace_id) == bool(session_id):
        raise InvalidRequest("give either trace_id or session_id")
    label = Label(
        trace_id=wire.trace_id_of(trace_id) if trace_id else None,
        session_id=wire.id_of("session_id", session_id) if session_id else None,
        drawn=body.get("drawn", False),
        **label_fields(body["name"], body["value"], body.get("author") or "", body.get("note") or ""),
    )
    keep_label(queries, gate, label)
    return _labelled(queries, label)


def _labelled(queries: Queries, label: Label) -> TraceDocument | SessionDocument:
    """Return the trace or the session that a label is about."""
    if label.trace_id is not None:
        return wire.found(queries.trace(label.trace_id), f"trace {label.trace_id}")
    return wire.found(queries.session(label.session_id or ""), f"session {label.session_id!r}")


@_strict
class ResolveRequest(TypedDict):
    """The name of the person who marks a problem as resolved, if known."""

    author: NotRequired[str | None]


@_strict
class MuteRequest(TypedDict):
    """The time, in RFC 3339, until which no alert reports a problem; null ends the muting."""

    until: str | None
    author: NotRequired[str | None]


@_strict
class MergeRequest(TypedDict):
    """The problem into which another one is merged."""

    into: str
    author: NotRequired[str | None]


@_strict
class SplitRequest(TypedDict):
    """With `by_text`, each text of the problem becomes a problem of its own; else what was merged is taken apart."""

    by_text: NotRequired[bool]
    author: NotRequired[str | None]


def write_resolved(queries: Queries, gate: Gate, body: ResolveRequest, problem_id: str) -> ProblemDocument:
    """Mark the problem as resolved; return it."""
    resolve_problem(gate, problem_id, by=body.get("author"))
    return _problem(queries, problem_id)


def write_muted(queries: Queries, gate: Gate, body: MuteRequest, problem_id: str) -> ProblemDocument:
    """Mute the problem or end the muting; return it."""
    until = None if body["until"] is None else wire.time_of("until", body["until"])
    mute_problem(gate, problem_id, until=until, by=body.get("author"))
    return _problem(queries, problem_id)


def write_merged(queries: Queries, gate: Gate, body: MergeRequest, problem_id: str) -> ProblemDocument:
    """Merge the problem into another one; return that one."""
    merge_problem(gate, problem_id, into=body["into"], by=body.get("author"))
    return _problem(queries, body["into"])


def write_split(queries: Queries, gate: Gate, body: SplitRequest, problem_id: str) -> SplitDocument:
    """Take apart what was merged into the problem, or each text of it."""
    split_problem(gate, problem_id, by=body.get("author"), by_text=body.get("by_text", False))
    return {"problem": queries.problem(problem_id.lower())}


def _problem(queries: Queries, problem_id: str) -> ProblemDocument:
    return wire.found(queries.problem(problem_id.lower()), f"problem {problem_id}")


def resolve_problem(gate: Gate, problem_id: str, *, by: str | None) -> None:
    """Mark a problem as resolved. Raises InvalidRequest for a malformed id, NotFound for an unknown one."""
    is_known = gate.resolve_problem(_problem_id(problem_id), wire.optional_id("author", by))
    wire.found(is_known or None, f"problem {problem_id}")


def mute_problem(gate: Gate, problem_id: str, *, until: int | None, by: str | None) -> None:
    """Mute a problem until that time (ns); None ends the muting.

    Raises InvalidRequest for a malformed id, NotFound for an unknown one.
    """
    is_known = gate.mute_problem(_problem_id(problem_id), until, wire.optional_id("author", by))
    wire.found(is_known or None, f"problem {problem_id}")


def merge_problem(gate: Gate, problem_id: str, *, into: str, by: str | None) -> None:
    """Merge a problem into another one.

    Raises InvalidRequest for a malformed id or what cannot be merged, NotFound for an unknown problem.
    """
    gate.merge_problem(_problem_id(problem_id), _problem_id(into), wire.optional_id("author", by))


def split_problem(gate: Gate, problem_id: str, *, by: str | None, by_text: bool) -> None:
    """Take apart what was merged into a problem, or each text of it.

    Raises InvalidRequest for a malformed id or what cannot be split, NotFound for an unknown problem.
    """
    gate.split_problem(_problem_id(problem_id), wire.optional_id("author", by), by_text=by_text)


def _problem_id(text: str) -> str:
    return wire.hex_id("problem_id", text, wire.PROBLEM_DIGITS)


@_strict
class JudgingRequest(TypedDict):
    """The traces and sessions that the judge should score; or a time (RFC 3339) since which all that failed or had no
    budget is judged."""

    trace_ids: NotRequired[list[str]]
    session_ids: NotRequired[list[str]]
    failed_since: NotRequired[str | None]


@_strict
class CheckRequest(TypedDict):
    """An empty body."""


class CheckDocument(TypedDict):
    """Why the judge's endpoint would not answer; null if nothing is known to be wrong."""

    trouble: str | None


def judge_again(
    gate: Gate, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int | None
) -> Rejudging:
    """Have the judge score these traces and sessions if it has not, or all that failed since that time (ns).

    Raises InvalidRequest for both or neither, and if there is no judge.
    """
    count = len(trace_ids) + len(session_ids)
    if bool(count) == bool(failed_since) or count > wire.MAX_LIMIT:
        raise InvalidRequest(
            f"give either traces and sessions, at most {wire.MAX_LIMIT}, or a time since which they failed"
        )
    ids = [wire.trace_id_of(trace_id) for trace_id in trace_ids], [storable(session_id) for session_id in session_ids]
    return gate.judge_again(*ids, failed_since or 0)


def write_judging(queries: Queries, gate: Gate, body: JudgingRequest) -> JudgingDocument:
    """Have the judge score what the body names."""
    since = body.get("failed_since")
    failed_since = wire.time_of("failed_since", since) if since else None
    waiting = judge_again(gate, body.get("trace_ids", []), body.get("session_ids", []), failed_since)
    return document(JudgingDocument, waiting)


def write_check(queries: Queries, gate: Gate, body: CheckRequest) -> CheckDocument:
    """Check whether the judge's endpoint answers."""
    return {"trouble": gate.check_judge()}


@_strict
class DeleteRequest(TypedDict):
    """Names what to delete: a session, all sessions of a user, or traces scored before a time (RFC 3339). Or names the
    id of a deletion, to get its receipt. `author` says who asks for it."""

    session_id: NotRequired[str | None]
    user_id: NotRequired[str | None]
    before: NotRequired[str | None]
    deletion_id: NotRequired[str | None]
    author: NotRequired[str | None]


def write_deletion(queries: Queries, gate: Gate, body: DeleteRequest) -> DeletionDocument:
    """Delete what the body names, or return the receipt of a deletion."""
    before = body.get("before")
    return delete(gate, body, None if before is None else wire.time_of("before", before))


def delete(gate: Gate, deletion: DeleteRequest, before: int | None) -> DeletionDocument:
    """Delete what the fields of a `DeleteRequest` name, or what was scored before that time (ns); or return a receipt.

    Raises InvalidRequest unless exactly one of these is given, and NotFound for an unknown deletion.
    """
    named = {"session_id": deletion.get("session_id"), "user_id": deletion.get("user_id")}
    ids = {name: wire.id_of(name, text) for name, text in named.items() if text is not None}
    deletion_id = deletion.get("deletion_id")
    if len(ids) + (before is not None) + (deletion_id is not None) != 1:
        raise InvalidRequest("give one of session_id, user_id, before and deletion_id")
    if deletion_id is not None:
        return document(DeletionDocument, gate.receipt(wire.hex_id("deletion_id", deletion_id, 32)))
    wanted = DeletionFilter(**ids, before=before)
    author = deletion.get("author")
    return document(DeletionDocument, gate.delete(wanted, None if author is None else wire.id_of("author", author)))
