"""Find everything in a complete trace except its loops, and tell what could be looked at.

Each kind of finding is one line in `OBSERVED`. Without `seen_in`, a trace without content would look like a trace
without findings.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final, NamedTuple

from agenteval_collector.evaluation.findings import text_calls, tool_calls, turn_failures
from agenteval_collector.evaluation.findings.observers import Observation, ObservedTrace, Observer
from otel_agenteval.finding import Finding, FindingKind, Seen, Visibility
from otel_agenteval.model import Trace

OBSERVED: Final[tuple[tuple[FindingKind, Observer], ...]] = (
    (FindingKind.TURN_FAILED, turn_failures.turn_failed),
    (FindingKind.NO_ANSWER, turn_failures.unanswered),
    (FindingKind.TOOL_CALL_AS_TEXT, text_calls.written_out),
    (FindingKind.MODEL_FAILED, turn_failures.model_failed),
    (FindingKind.TOOL_FAILED, tool_calls.failed),
    (FindingKind.NONZERO_EXIT, tool_calls.nonzero_exit),
    (FindingKind.STEP_FAILED, turn_failures.step_failed),
    (FindingKind.UNKNOWN_TOOL, tool_calls.unknown),
    (FindingKind.INVALID_ARGUMENTS, tool_calls.invalid_arguments),
    (FindingKind.ANSWER_CUT, turn_failures.answer_cut),
    (FindingKind.VALUE_NOT_SAID, tool_calls.unsaid_values),
    (FindingKind.REPEATED_CALL, tool_calls.repeated),
    (FindingKind.REPEATED_EFFECT, tool_calls.repeated_effects),
)
"""The kinds of findings that complete traces show, each with its observer."""

OF_KNOWN_HISTORY: Final = frozenset({FindingKind.VALUE_NOT_SAID})
"""The kinds that are observed only if all is known that was said before the trace."""

MAX_OF_A_KIND: Final = 100
"""Findings of one kind in a trace. If there are more, the last one says so."""


class Observed(NamedTuple):
    """An observation, and the kind of finding that it is."""

    kind: FindingKind
    observation: Observation


def findings_in(
    trace: Trace, *, session_id: str, is_first: bool, found_at: int, observed: Sequence[Observed] | None = None
) -> list[Finding]:
    """Return the findings in `trace` except its loops, in order of its turns. `is_first`: no earlier trace of the
    session is known. `found_at` is in nanoseconds since the Unix epoch. `observed` is what it shows as a first trace,
    if that is known already."""
    if observed is None:
        observed = observed_in(trace, is_first=is_first)
    elif not is_first and not ObservedTrace(trace, is_first).is_history_known:
        observed = [one for one in observed if one.kind not in OF_KNOWN_HISTORY]
    findings = [_finding(trace, kind, observation, session_id, found_at) for kind, observation in observed]
    return sorted(findings, key=lambda finding: finding.turn or 0)


def observed_in(trace: Trace, *, is_first: bool) -> list[Observed]:
    """Return what the observers see in `trace`."""
    observed = ObservedTrace(trace, is_first)
    return [
        Observed(kind, observation)
        for kind, observer in OBSERVED
        # Most observers find nothing.
        if (first := next(observations := observer(observed), None)) is not None
        for observation in _bounded(chain([first], observations))
    ]


def _bounded(observations: Iterator[Observation]) -> Iterator[Observation]:
    yield from islice(observations, MAX_OF_A_KIND - 1)
    if last := next(observations, None):
        has_more = next(observations, None) is not None
        yield replace(last, reason=f"{last.reason}; and there are more of this kind") if has_more else last


def _finding(trace: Trace, kind: FindingKind, observation: Observation, session_id: str, found_at: int) -> Finding:
    turn = trace.turns[observation.turn]
    return Finding(
        kind=kind,
        severity=observation.severity or kind.severity,
        reason=observation.reason,
        trace_id=trace.trace_id,
        session_id=session_id,
        span_id=observation.span_id or turn.span_id,
        turn=None if turn.is_orphan else observation.turn,
        agent=observation.agent or turn.agent or trace.agent,
        tool=observation.tool,
        service=trace.service,
        service_version=trace.service_version,
        environment=trace.environment,
        metadata=observation.metadata,
        found_at=found_at,
    )


def seen_in(trace: Trace, *, is_first: bool) -> Seen:
    """Return what could be looked at in `trace`. `is_first`: no earlier trace of the session is known.

    Content that cannot be there is not missing: the answer of a turn that failed or ended in a call, the results of the
    last calls if the turn goes on in another trace, the finish reason of a failed model call, and the history of a
    first trace. If content was cut on the way, `ALL` becomes `SOME`.
    """
    silent = (turn.output is None and (turn.error is not None or turn.ends_in_call) for turn in trace.turns)
    answering = [
        turn for turn, is_silent in zip(trace.turns, silent, strict=True) if not is_silent and not turn.is_orphan
    ]
    finished = [call for call in trace.model_calls if call.error is None]
    calls = trace.tool_calls
    answered = [call.result is not None or call.error is not None for call in calls]
    while trace.turn_goes_on and answered and not answered[-1]:
        answered.pop()  # The result is in a later trace, which shows whether the call failed.
    return Seen(
        answers=_sight(trace, (turn.output is not None for turn in answering)),
        arguments=_sight(trace, (call.arguments is not None for call in calls)),
        results=_sight(trace, answered),
        finish_reasons=_sight(trace, (call.finish_reason is not None for call in finished)),
        history=_history(trace, is_first),
    )


def _history(trace: Trace, is_first: bool) -> Visibility | None:
    if not trace.history:
        return None if is_first else Visibility.NONE
    return Visibility.ALL if trace.is_history_begun and not trace.partial else Visibility.SOME


def _sight(trace: Trace, recorded: Iterable[bool]) -> Visibility | None:
    marks = [*recorded]
    if not marks:
        return None
    if not any(marks):
        return Visibility.NONE
    return Visibility.ALL if all(marks) and not trace.partial else Visibility.SOME
