"""Problems over the API: the parameters of their listing, and their documents."""

from collections.abc import Mapping
from typing import Final

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.problem_documents import ProblemDocument
from agenteval_collector.api.rendering import document
from agenteval_collector.api.wire import choice, hex_id
from agenteval_collector.problems import ProblemState
from agenteval_collector.problems.problem import Problem, ProblemFilter
from agenteval_collector.runtime.errors import NotFound
from agenteval_collector.runtime.times import rfc3339
from otel_agenteval.finding import Severity

PARAMETERS: Final = ("agent", "state", "severity", "version")
ID_DIGITS: Final = 16
"""Hexadecimal digits of a problem's id."""
_DIGITS: Final = 6


def problem_filter(given: Mapping[str, str]) -> ProblemFilter:
    """Return the filter that these parameters ask for; an empty parameter asks for nothing. Raises InvalidRequest
    naming the parameter that is wrong."""
    state, severity = given.get("state"), given.get("severity")
    return ProblemFilter(
        agent=given.get("agent") or None,
        state=choice("state", state, ProblemState) if state else None,
        severity=choice("severity", severity, Severity) if severity else None,
        version=given.get("version") or None,
    )


def resolve_problem(reports: Reports, problem_id: str, *, by: str | None) -> None:
    """Mark a problem as resolved. Raises InvalidRequest for what is no id, NotFound for an unknown one."""
    _check_known(problem_id, reports.resolve_problem(_id(problem_id), by))


def mute_problem(reports: Reports, problem_id: str, *, until: int | None, by: str | None) -> None:
    """Mute a problem until that time (ns), None: no longer. Raises InvalidRequest for what is no id, NotFound for an
    unknown one."""
    _check_known(problem_id, reports.mute_problem(_id(problem_id), until, by))


def problem_document(problem: Problem) -> ProblemDocument:
    """Return a problem as the API shows it."""
    key, until = problem.key, problem.muted_until
    return document(
        ProblemDocument,
        problem,
        problem_id=key.problem_id,
        agent=key.agent,
        title=key.title,
        kind=key.kind,
        tool=key.tool,
        first_seen=rfc3339(problem.first_seen),
        last_seen=rfc3339(problem.last_seen),
        # Sums of floats have a rest far behind the point.
        usd=round(problem.usd, _DIGITS),
        seconds=round(problem.seconds, _DIGITS),
        muted_until=None if until is None else rfc3339(until),
    )


def _id(text: str) -> str:
    return hex_id("problem_id", text, ID_DIGITS)


def _check_known(problem_id: str, is_known: bool) -> None:
    if not is_known:
        raise NotFound(f"problem {problem_id} is not known to this collector")
