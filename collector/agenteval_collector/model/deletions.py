"""What is to be deleted, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFilter:
    """What somebody wants deleted: a session, all sessions of a user, or the traces scored before a time (ns). One of
    them is given."""

    session_id: str | None = None
    user_id: str | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The sums of a deletion so far: rows by table, `spans` and `log_records` of the log, and their `bytes`.

    `done_at` is None while it goes on. Times in nanoseconds since the Unix epoch.
    """

    deletion_id: str
    asked_by: str | None
    asked_at: int
    done_at: int | None
    removed: Mapping[str, int]
