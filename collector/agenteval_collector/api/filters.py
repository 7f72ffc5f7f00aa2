"""Read the parameters of listings of sessions and problems: the same over HTTP, over gRPC and on the page."""

import math
from collections.abc import Mapping
from typing import Final

from agenteval_collector.api.wire import choice, texts_of, time_of
from agenteval_collector.model.session_filter import Below, Order, SessionFilter
from agenteval_collector.problems.problem import ProblemFilter, ProblemState
from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import FindingKind, Severity

_NAMES: Final = ("agent", "service", "version", "user")
SESSION_PARAMETERS: Final = (*_NAMES, "finding", "severity", "below", "text", "since", "until", "order")

PROBLEM_PARAMETERS: Final = ("agent", "state", "severity", "version")

_KINDS: Final = frozenset({*FindingKind, *LOOP_KINDS})


def session_filter(given: Mapping[str, str]) -> SessionFilter:
    """Return the filter for sessions; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    asked = texts_of(given, *SESSION_PARAMETERS)
    since, until = (time_of(name, text) if (text := asked[name]) else None for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise InvalidRequest(f"since is {given['since']!r}, not before until, {given['until']!r}")
    finding, severity, below = asked["finding"], asked["severity"], asked["below"]
    return SessionFilter(
        **{name: asked[name] for name in _NAMES},
        finding=_kind(finding) if finding else None,
        severity=choice("severity", severity, Severity) if severity else None,
        below=_below(below) if below else None,
        text=asked["text"],
        since=since,
        until=until,
        order=choice("order", asked["order"] or Order.NEWEST, Order),
    )


def problem_filter(given: Mapping[str, str]) -> ProblemFilter:
    """Return the filter for problems; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    asked = texts_of(given, *PROBLEM_PARAMETERS)
    state, severity = asked["state"], asked["severity"]
    return ProblemFilter(
        agent=asked["agent"],
        state=choice("state", state, ProblemState) if state else None,
        severity=choice("severity", severity, Severity) if severity else None,
        version=asked["version"],
    )


def _kind(text: str) -> str:
    if text not in _KINDS:
        raise InvalidRequest(f"finding is {text!r}, not one of {', '.join(sorted(_KINDS))}")
    return text


def _below(text: str) -> Below:
    name, _, number = text.rpartition(":")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name or not 0.0 <= value <= 1.0:
        raise InvalidRequest(f"below is {text!r}, not NAME:VALUE with a value from 0 to 1, as task_completion:0.5")
    return Below(name, value)
