"""Find everything in a complete trace but its loops: each kind is one line in `OBSERVED`."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from agenteval_collector.findings import arguments, models, text_calls, tools, turns
from agenteval_collector.findings.observing import Observed, Observer, Subject
from otel_agenteval.finding import Finding, FindingKind, Severity
from otel_agenteval.model import Trace

OBSERVED: Final[tuple[tuple[FindingKind, Severity, Observer], ...]] = (
    (FindingKind.TURN_FAILED, Severity.ERROR, turns.failed),
    (FindingKind.NO_ANSWER, Severity.ERROR, turns.unanswered),
    (FindingKind.TOOL_CALL_AS_TEXT, Severity.ERROR, text_calls.written_out),
    (FindingKind.MODEL_FAILED, Severity.WARNING, models.failed),
    (FindingKind.TOOL_FAILED, Severity.WARNING, tools.failed),
    (FindingKind.UNKNOWN_TOOL, Severity.WARNING, tools.unknown),
    (FindingKind.INVALID_ARGUMENTS, Severity.WARNING, arguments.invalid),
    (FindingKind.ANSWER_CUT, Severity.WARNING, models.cut),
    (FindingKind.VALUE_NOT_SAID, Severity.INFO, arguments.unsaid),
    (FindingKind.REPEATED_CALL, Severity.INFO, tools.repeated),
)
"""The kinds that are looked for, with their severities."""

MAX_OF_A_KIND: Final = 100
"""Findings of one kind in a trace. The last one says that there are more."""


def findings_in(trace: Trace, *, session_id: str, is_first: bool, found_at: int) -> list[Finding]:
    """Return everything that is observed in `trace` but its loops, in order of its turns. `is_first`: no earlier trace
    of the session is known."""
    subject = Subject(trace, is_first)
    found = [
        _finding(trace, kind, severity, observed, session_id, found_at)
        for kind, severity, observer in OBSERVED
        for observed in _bounded(observer(subject))
    ]
    return sorted(found, key=lambda finding: finding.turn or 0)


def _bounded(found: Iterator[Observed]) -> Iterator[Observed]:
    yield from islice(found, MAX_OF_A_KIND - 1)
    if last := next(found, None):
        has_more = next(found, None) is not None
        yield replace(last, reason=f"{last.reason}; and there are more of this kind") if has_more else last


def _finding(
    trace: Trace, kind: FindingKind, severity: Severity, observed: Observed, session_id: str, found_at: int
) -> Finding:
    turn = trace.turns[observed.turn]
    return Finding(
        kind=kind,
        severity=severity,
        reason=observed.reason,
        trace_id=trace.trace_id,
        session_id=session_id,
        span_id=observed.span_id or turn.span_id,
        turn=observed.turn,
        agent=observed.agent or turn.agent or trace.agent,
        tool=observed.tool,
        service=trace.service,
        service_version=trace.service_version,
        environment=trace.environment,
        metadata=observed.metadata,
        found_at=found_at,
    )
