"""Marks of problems over HTTP: resolved, or muted for a time."""

from typing import NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.problem_documents import ProblemDocument
from agenteval_collector.api.problems import mute_problem, resolve_problem
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.wire import found, id_of, time_of


@with_config(ConfigDict(strict=True, extra="forbid"))
class ResolveRequest(TypedDict):
    """The name of the person who says that a problem is resolved, where known."""

    author: NotRequired[str | None]


@with_config(ConfigDict(strict=True, extra="forbid"))
class MuteRequest(TypedDict):
    """The time until which no alert tells of a problem, in RFC 3339; null ends the muting."""

    until: str | None
    author: NotRequired[str | None]


def write_resolved(queries: Queries, reports: Reports, body: ResolveRequest, problem_id: str) -> ProblemDocument:
    """Mark the problem as resolved; return it."""
    resolve_problem(reports, problem_id, by=_author(body))
    return _problem(queries, problem_id)


def write_muted(queries: Queries, reports: Reports, body: MuteRequest, problem_id: str) -> ProblemDocument:
    """Mute the problem, or end that; return it."""
    until = None if body["until"] is None else time_of("until", body["until"])
    mute_problem(reports, problem_id, until=until, by=_author(body))
    return _problem(queries, problem_id)


def _author(body: ResolveRequest | MuteRequest) -> str | None:
    author = body.get("author")
    return id_of("author", author) if author else None


def _problem(queries: Queries, problem_id: str) -> ProblemDocument:
    return found(queries.problem(problem_id.lower()), f"problem {problem_id}")
