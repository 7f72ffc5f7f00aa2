"""Read the parameters of listings of sessions, traces and problems: the same over HTTP and on the page."""

import math
from collections.abc import Mapping
from typing import Any, Final

from agenteval_collector.model.alarms import AlarmFilter, AlarmState
from agenteval_collector.model.labels import LabelVerdict
from agenteval_collector.model.problem import ProblemFilter, ProblemState
from agenteval_collector.model.session_filter import Below, Order, SessionFilter, TraceFilter
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.wire import PROBLEM_DIGITS, choice, hex_id, texts_of, time_of
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import FindingKind, Severity

_NAMES: Final = ("agent", "service", "version", "user", "environment", "text")
_SHARED: Final = (*_NAMES, "finding", "severity", "below", "since", "until")
SESSION_PARAMETERS: Final = (*_SHARED, "order")
TRACE_PARAMETERS: Final = (*_SHARED, "problem", "label")

ALARM_PARAMETERS: Final = ("state", "agent", "environment", "since")
PROBLEM_PARAMETERS: Final = ("agent", "service", "state", "severity", "version", "environment", "since")

_KINDS: Final = frozenset({*FindingKind, *LOOP_KINDS})


def session_filter(values: Mapping[str, str]) -> SessionFilter:
    """Return the filter for sessions; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    texts = texts_of(values, *SESSION_PARAMETERS)
    return SessionFilter(**_shared(texts), order=choice("order", texts["order"] or Order.NEWEST, Order))


def trace_filter(values: Mapping[str, str]) -> TraceFilter:
    """Return the filter for traces; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    texts = texts_of(values, *TRACE_PARAMETERS)
    problem, label = texts["problem"], texts["label"]
    return TraceFilter(
        **_shared(texts),
        problem=hex_id("problem", problem, PROBLEM_DIGITS) if problem else None,
        label=choice("label", label, LabelVerdict) if label else None,
    )


def _shared(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the fields that filters of sessions and of traces share."""
    since, until = (time_of(name, text) if (text := texts[name]) else None for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise InvalidRequest(f"since is {texts['since']!r}, not before until, {texts['until']!r}")
    finding, severity, below = texts["finding"], texts["severity"], texts["below"]
    return {
        **{name: texts[name] for name in _NAMES},
        "finding": _kind(finding) if finding else None,
        "severity": choice("severity", severity, Severity) if severity else None,
        "below": _below(below) if below else None,
        "since": since,
        "until": until,
    }


def problem_filter(values: Mapping[str, str]) -> ProblemFilter:
    """Return the filter for problems; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    texts = texts_of(values, *PROBLEM_PARAMETERS)
    state, severity = texts["state"], texts["severity"]
    return ProblemFilter(
        agent=texts["agent"],
        service=texts["service"],
        state=choice("state", state, ProblemState) if state else None,
        severity=choice("severity", severity, Severity) if severity else None,
        version=texts["version"],
        environment=texts["environment"],
        since=_since(texts),
    )


def alarm_filter(values: Mapping[str, str]) -> AlarmFilter:
    """Return the filter for alarms; an empty parameter counts as absent.

    Raises InvalidRequest naming the parameter that is wrong.
    """
    texts = texts_of(values, *ALARM_PARAMETERS)
    state = texts["state"]
    return AlarmFilter(
        state=choice("state", state, AlarmState) if state else None,
        agent=texts["agent"],
        environment=texts["environment"],
        since=_since(texts),
    )


def _since(texts: Mapping[str, str | None]) -> int | None:
    return time_of("since", text) if (text := texts["since"]) else None


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
