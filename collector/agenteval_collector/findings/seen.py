"""Tell which facts could be looked for in a trace: "nothing found" is only said of what was seen."""

from collections.abc import Iterable

from otel_agenteval.finding import Seen, Visibility
from otel_agenteval.model import Trace


def seen_in(trace: Trace, *, is_first: bool) -> Seen:
    """Tell what could be looked for in `trace`. `is_first`: no trace of the session is known to have come before.

    Not looked for are the answer of a turn that failed or ended in a call, the results of its last calls where it goes
    on elsewhere, the finish reason of a model call that failed, and earlier turns where there are none. Of a trace that
    was cut on the way, nothing is seen whole.
    """
    silent = (turn.output is None and (turn.error is not None or turn.ends_in_call) for turn in trace.turns)
    answering = [turn for turn, is_silent in zip(trace.turns, silent, strict=True) if not is_silent]
    finished = [call for call in trace.model_calls if call.error is None]
    calls = trace.tool_calls
    answered = [call.result is not None or call.error is not None for call in calls]
    while trace.turn_goes_on and answered and not answered[-1]:
        answered.pop()  # The trace that brings the result shows it.
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
    known = [*recorded]
    if not known:
        return None
    if not any(known):
        return Visibility.NONE
    return Visibility.ALL if all(known) and not trace.partial else Visibility.SOME
