"""Deletions: the same rules over HTTP and over gRPC."""

from typing import NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.rendering import document
from agenteval_collector.api.wire import hex_id, id_of, time_of
from agenteval_collector.model.deletion import Doomed, Receipt
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.runtime.times import rfc3339


@with_config(ConfigDict(strict=True, extra="forbid"))
class DeleteRequest(TypedDict):
    """What is to be deleted: a session, all sessions of a user, or the traces that were scored before a time in RFC
    3339. Or else the id of a deletion, whose receipt is answered. `author` says who wants it."""

    session_id: NotRequired[str | None]
    user_id: NotRequired[str | None]
    before: NotRequired[str | None]
    deletion_id: NotRequired[str | None]
    author: NotRequired[str | None]


class DeletionDocument(TypedDict):
    """What a deletion has removed so far: rows by table, `spans` and `log_records` of the log, and their `bytes`.

    `done_at` is null while it goes on.
    """

    deletion_id: str
    asked_by: str | None
    asked_at: str
    done_at: str | None
    removed: dict[str, int]


def write_deletion(queries: Queries, reports: Reports, body: DeleteRequest) -> DeletionDocument:
    """Delete what the request names, or answer how far a deletion is."""
    before = body.get("before")
    return delete(
        reports,
        session_id=body.get("session_id"),
        user_id=body.get("user_id"),
        before=None if before is None else time_of("before", before),
        deletion_id=body.get("deletion_id"),
        author=body.get("author"),
    )


def delete(
    reports: Reports,
    *,
    session_id: str | None,
    user_id: str | None,
    before: int | None,
    deletion_id: str | None,
    author: str | None,
) -> DeletionDocument:
    """Delete one of these, or return the receipt of a deletion. Raises InvalidRequest, unless one of the first four is
    given, and NotFound for an unknown deletion."""
    if sum(each is not None for each in (session_id, user_id, before, deletion_id)) != 1:
        raise InvalidRequest("give one of session_id, user_id, before and deletion_id")
    if deletion_id is not None:
        return deletion_document(reports.receipt(hex_id("deletion_id", deletion_id, 32)))
    doomed = Doomed(
        session_id=None if session_id is None else id_of("session_id", session_id),
        user_id=None if user_id is None else id_of("user_id", user_id),
        before=before,
    )
    return deletion_document(reports.delete(doomed, None if author is None else id_of("author", author)))


def deletion_document(receipt: Receipt) -> DeletionDocument:
    """Return a receipt as the API shows it."""
    return document(
        DeletionDocument,
        receipt,
        asked_at=rfc3339(receipt.asked_at),
        done_at=None if receipt.done_at is None else rfc3339(receipt.done_at),
        removed=dict(receipt.removed),
    )
