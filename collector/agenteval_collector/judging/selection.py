"""Which traces the judge gets to see, and which of them first."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Method, Score

_ROUGH: Final = frozenset({("coherence", Method.EMBEDDING)})
"""Low scores of these mean little: more than half of recorded traces have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Whether a trace is judged, and before others, with the reason."""

    judged: bool
    urgent: bool
    reason: str


def select(trace: Trace, session_id: str, cheap: Sequence[Evaluation], share: float) -> Selection:
    """What the judge is to do with a trace of which the `cheap` outcomes are known.

    A trace with a loop, an error or a low score is judged before others, and whatever the `share` of the sessions
    that are judged.
    """
    risk = _risk(trace, cheap)
    if risk is not None:
        return Selection(judged=True, urgent=True, reason=risk)
    if sampled(session_id, share):
        return Selection(judged=True, urgent=False, reason="waiting for the judge")
    reason = f"sampled out: the session is not among the {share * 100:.10g} % that are judged"
    return Selection(judged=False, urgent=False, reason=reason)


def sampled(session_id: str, share: float) -> bool:
    """Whether the session is among the `share` of all sessions that are judged.

    A matter of its id alone: the same for all its traces, after a restart, and in every collector. With a larger
    share, sessions are added and none goes.
    """
    digest = hashlib.sha256(session_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _risk(trace: Trace, cheap: Sequence[Evaluation]) -> str | None:
    for turn in trace.turns:
        if turn.error is not None:
            return "waiting for the judge, urgent: a turn failed"
    if any(call.error is not None for call in trace.tool_calls):
        return "waiting for the judge, urgent: a tool call failed"
    for evaluation in cheap:
        if evaluation.success is False and (evaluation.name, evaluation.method) not in _ROUGH:
            assert isinstance(evaluation.outcome, Score)
            what = "a loop" if evaluation.name == "loop_detection" else evaluation.name
            return f"waiting for the judge, urgent: {what} at {evaluation.outcome.value:.2f}"
    return None
