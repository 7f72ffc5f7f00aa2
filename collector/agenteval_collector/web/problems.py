"""Marks of a problem that its page gives: resolved, muted for a time, or not muted any more."""

from collections.abc import Mapping
from typing import Final

from agenteval_collector.api.ports import Reports
from agenteval_collector.api.problems import mute_problem, resolve_problem
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest

MUTED_FOR: Final = 7 * 24 * 3600 * 1_000_000_000
"""Nanoseconds for which the page mutes a problem."""


def mark(reports: Reports, clock: Clock, problem_id: str, form: Mapping[str, str]) -> str:
    """Mark a problem as the form says; return the address of its page. Raises NotFound, and InvalidRequest."""
    match form.get("say"):
        case "resolved":
            resolve_problem(reports, problem_id, by=None)
        case "muted":
            mute_problem(reports, problem_id, until=clock.now() + MUTED_FOR, by=None)
        case "unmuted":
            mute_problem(reports, problem_id, until=None, by=None)
        case other:
            raise InvalidRequest(f"say is {(other or '')[:64]!r}, not resolved, muted or unmuted")
    return f"/problems/{problem_id}"
