"""Deletions that somebody asks for, and their receipts."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFilter:
    """Selects what to delete. Exactly one field is given: a session, a user whose sessions all go, or the time (ns)
    before which the traces were scored."""

    session_id: str | None = None
    user_id: str | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The receipt of a deletion. `removed` counts what has gone so far: rows by table, and `spans`, `log_records` and
    `bytes` of the log.

    `done_at` is None while the deletion goes on. Times in nanoseconds since the Unix epoch.
    """

    deletion_id: str
    asked_by: str | None
    asked_at: int
    done_at: int | None
    removed: Mapping[str, int]
