"""Requests to the judge: the same rules over HTTP and over gRPC."""

from collections.abc import Sequence
from typing import NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from agenteval_collector.api.documents import JudgingDocument
from agenteval_collector.api.ports import Reports
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.wire import MAX_LIMIT, time_of, trace_id_of
from agenteval_collector.model.reports import Rejudging
from agenteval_collector.runtime.errors import InvalidRequest


@with_config(ConfigDict(strict=True, extra="forbid"))
class JudgeRequest(TypedDict):
    """The traces and sessions that the judge is to score where it has not; or else all that failed, or had no budget,
    since a time in RFC 3339."""

    trace_ids: NotRequired[list[str]]
    session_ids: NotRequired[list[str]]
    failed_since: NotRequired[str | None]


@with_config(ConfigDict(strict=True, extra="forbid"))
class CheckRequest(TypedDict):
    """An empty body."""


class CheckDocument(TypedDict):
    """The reason why the judge's endpoint would not answer; null where none is known."""

    trouble: str | None


def judge_again(
    reports: Reports, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int | None
) -> Rejudging:
    """Have the judge score what it has not: of these traces and sessions, or of all that failed since that time (ns).
    Raises InvalidRequest for both and for none, and where there is no judge."""
    given = len(trace_ids) + len(session_ids)
    if bool(given) == bool(failed_since) or given > MAX_LIMIT:
        raise InvalidRequest(f"give either traces and sessions, at most {MAX_LIMIT}, or a time since which they failed")
    return reports.judge_again(list(map(trace_id_of, trace_ids)), list(session_ids), failed_since or 0)


def write_judging(queries: Queries, reports: Reports, body: JudgeRequest) -> JudgingDocument:
    """Have the judge score what the request names."""
    since = body.get("failed_since")
    failed_since = time_of("failed_since", since) if since else None
    found = judge_again(reports, body.get("trace_ids", []), body.get("session_ids", []), failed_since)
    return {"traces": found.traces, "more": found.more}


def write_check(queries: Queries, reports: Reports, body: CheckRequest) -> CheckDocument:
    """Find out whether the judge's endpoint answers."""
    return {"trouble": reports.check_judge()}
