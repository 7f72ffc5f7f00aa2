"""The JSON documents that are not about a trace or a figure: pages of listings, errors, receipts, the collector."""

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

# Pydantic makes the description of the API from these; before Python 3.12 it cannot from those of `typing`.
from typing_extensions import TypedDict

Item = TypeVar("Item")
Interval: TypeAlias = Sequence[float]
"""The lower and the upper bound of a 95 % interval."""


class Listing(TypedDict, Generic[Item]):
    """A page of a listing; `next_cursor` leads to the next page, and is null on the last."""

    items: list[Item]
    next_cursor: str | None


class ErrorDetail(TypedDict):
    """The code of an error, and a sentence that explains it."""

    code: str
    message: str


class ErrorDocument(TypedDict):
    """An error."""

    error: ErrorDetail


class DoneDocument(TypedDict):
    """A write that is done, for a caller that may not read what it changed."""

    done: bool


class JudgingDocument(TypedDict):
    """The number of traces and sessions that this request put before the judge. `more`: the queue had no room for
    others."""

    traces: int
    more: bool


class DeletionDocument(TypedDict):
    """Counts what a deletion removed so far: rows by table, `spans` and `log_records` of the log, and their `bytes`.

    `done_at` is null while it goes on.
    """

    deletion_id: str
    asked_by: str | None
    asked_at: str
    done_at: str | None
    removed: dict[str, int]


class JudgeDocument(TypedDict):
    """The judge: its model, and what is wrong with it; null if nothing is."""

    model: str
    trouble: str | None


class QuarantineDocument(TypedDict):
    """Input that is set aside, and since when; `kind` is request, trace or row.

    `bytes` is null if nothing has measured it. `trace_ids` is empty if it is not known what is in it.
    """

    id: str
    kind: str
    since: str
    bytes: int | None
    trace_ids: list[str]
    reason: str


class CollectorDocument(TypedDict):
    """A running collector; `judge` is null if none is configured."""

    version: str
    python: str
    opentelemetry: str
    judge: JudgeDocument | None
