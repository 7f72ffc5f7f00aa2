"""Choose the traces that the judge gets to see, and those that it sees first."""

import hashlib
from dataclasses import dataclass

from otel_agenteval.model import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The choice about a trace: to judge it or not, before others or in its turn, and the reason."""

    judged: bool
    urgent: bool
    reason: str


def select(trace: Trace, session_id: str, share: float, *, looped: bool) -> Selection:
    """Decide whether and when a trace is judged; `looped`: a loop was found in it.

    A trace with a loop, a failed turn or a failed call is judged before others, and whatever the `share` of the
    sessions that are judged.
    """
    fact = _urgent(trace, looped)
    if fact is not None:
        return Selection(judged=True, urgent=True, reason=f"waiting for the judge, urgent: {fact}")
    if sampled(session_id, share):
        return Selection(judged=True, urgent=False, reason="waiting for the judge")
    reason = f"sampled out: the session is not among the {share * 100:.10g} % that are judged"
    return Selection(judged=False, urgent=False, reason=reason)


def sampled(session_id: str, share: float) -> bool:
    """Tell whether the session is among the `share` of all sessions that are judged.

    A matter of its id alone: the same for all its traces, after a restart, and in every collector. With a larger
    share, sessions are added and none goes.
    """
    digest = hashlib.sha256(session_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _urgent(trace: Trace, looped: bool) -> str | None:
    if any(turn.error is not None for turn in trace.turns):
        return "a turn failed"
    if any(call.error is not None for call in trace.tool_calls):
        return "a tool call failed"
    return "the agent was in a loop" if looped else None
