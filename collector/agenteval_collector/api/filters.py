"""Read the parameters of listings of sessions and problems: the same over HTTP, over gRPC and on the page."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from agenteval_collector.api.wire import choice, time_of
from agenteval_collector.model.session_filter import Below, Order, SessionFilter
from agenteval_collector.problems.problem import ProblemFilter, ProblemState
from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import FindingKind, Severity
from otel_agenteval.internal.text import storable

_NAMES: Final = ("agent", "service", "version", "user")
SESSION_PARAMETERS: Final = (*_NAMES, "finding", "severity", "below", "text", "since", "until", "order")

PROBLEM_PARAMETERS: Final = ("agent", "state", "severity", "version")

MAX_TEXT: Final = 1024
"""The most characters of a parameter."""
_KINDS: Final = frozenset({*FindingKind, *LOOP_KINDS})


def session_filter(given: Mapping[str, str]) -> SessionFilter:
    """Return the filter for sessions; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    asked = _asked(given, SESSION_PARAMETERS)
    since, until = (time_of(name, asked[name]) if name in asked else None for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise InvalidRequest(f"since is {given['since']!r}, not before until, {given['until']!r}")
    return SessionFilter(
        **{name: asked.get(name) for name in _NAMES},
        finding=_kind(asked["finding"]) if "finding" in asked else None,
        severity=choice("severity", asked["severity"], Severity) if "severity" in asked else None,
        below=_below(asked["below"]) if "below" in asked else None,
        text=asked.get("text"),
        since=since,
        until=until,
        order=choice("order", asked.get("order", Order.NEWEST), Order),
    )


def problem_filter(given: Mapping[str, str]) -> ProblemFilter:
    """Return the filter for problems; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    asked = _asked(given, PROBLEM_PARAMETERS)
    return ProblemFilter(
        agent=asked.get("agent"),
        state=choice("state", asked["state"], ProblemState) if "state" in asked else None,
        severity=choice("severity", asked["severity"], Severity) if "severity" in asked else None,
        version=asked.get("version"),
    )


def _asked(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the parameters of these names that say something, each of a length and characters that can be stored."""
    asked = {name: given[name] for name in names if given.get(name)}
    for name, text in asked.items():
        if len(text) > MAX_TEXT:
            raise InvalidRequest(f"{name} has {len(text)} characters, more than {MAX_TEXT}")
        if storable(text) != text:
            raise InvalidRequest(f"{name} has characters that cannot be stored")
    return asked


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
