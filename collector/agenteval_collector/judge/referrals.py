"""Decide which outcomes of a trace are left to the judge, when the trace is evaluated and without asking."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from agenteval_collector.config import NO_JUDGE
from agenteval_collector.judge.nothing_to_judge import preclude
from agenteval_collector.model.judging import URGENT, Referral
from agenteval_collector.runtime.lru import Recent
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Status, Unscored

SESSIONS: Final = 10_000
"""Sessions that are remembered with whether they are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvaluator:
    """A built-in evaluator or a rubric that asks the judge; `of_runs`: about traces of runs alone."""

    name: str
    version: str
    model: str
    threshold: float
    of_runs: bool = False


@dataclass(frozen=True, slots=True)
class Referrals:
    """Gives a trace an outcome of each of `evaluators`: pending, sampled out, or unscored with nothing to judge.

    A session is judged whole: from an urgent trace on, all others are judged too. `judged` says of a session whether a
    trace of it was left to the judge in an earlier run.
    """

    evaluators: Sequence[JudgedEvaluator]
    share: float
    judged: Callable[[str], bool]
    known: Recent[str, bool] = field(init=False, default_factory=lambda: Recent(SESSIONS))

    def refer(self, trace: Trace, session_id: str, *, looped: bool) -> list[Referral]:
        selected = select(trace, session_id, self.share, looped=looped)
        if selected.status is Status.SAMPLED_OUT and self._is_judged(session_id):
            reason = "waiting for the judge, as another trace of the session is judged"
            selected = Unscored(status=Status.PENDING, reason=reason)
        referrals = _referrals(self.evaluators, trace, selected)
        if any(each.outcome.status is Status.PENDING for each in referrals):
            self.known.put(session_id, True)
        return referrals

    def _is_judged(self, session_id: str) -> bool:
        known = self.known.get(session_id)
        if known is None:
            known = self.judged(session_id)
            self.known.put(session_id, known)
        return known


@dataclass(frozen=True, slots=True)
class NoJudge:
    """Gives a trace an outcome of each of `evaluators`, where nobody can be asked: unscored where nothing would be
    judged, else `no_judge`."""

    evaluators: Sequence[JudgedEvaluator]

    def refer(self, trace: Trace, session_id: str, *, looped: bool) -> list[Referral]:
        return _referrals(self.evaluators, trace, Unscored(status=Status.NO_JUDGE, reason=NO_JUDGE))


def _referrals(evaluators: Sequence[JudgedEvaluator], trace: Trace, otherwise: Unscored) -> list[Referral]:
    """Give each evaluator that the trace concerns the reason why it cannot be judged, or the outcome `otherwise`."""
    concerned = [each for each in evaluators if trace.run is not None or not each.of_runs]
    outcomes = [preclude(trace, each.name) or otherwise for each in concerned]
    return [
        Referral(
            name=each.name,
            version=each.version,
            model=each.model if outcome.status is Status.PENDING else None,
            threshold=each.threshold,
            outcome=outcome,
        )
        for each, outcome in zip(concerned, outcomes, strict=True)
    ]


def select(trace: Trace, session_id: str, share: float, *, looped: bool) -> Unscored:
    """Choose whether and when a trace is judged, in the words of an outcome: pending, urgent or not, or sampled out.

    A trace with a loop (`looped`), a failed turn or a failed call is judged before others, and whatever the `share` of
    the sessions that are judged.
    """
    fact = _urgent(trace, looped)
    if fact is not None:
        reason = f"waiting for the judge, urgent: {fact}"
        return Unscored(status=Status.PENDING, reason=reason, metadata={URGENT: True})
    if sampled(session_id, share):
        return Unscored(status=Status.PENDING, reason="waiting for the judge")
    reason = f"sampled out: the session is not among the {share * 100:.10g} % that are judged"
    return Unscored(status=Status.SAMPLED_OUT, reason=reason)


def sampled(session_id: str, share: float) -> bool:
    """Tell by its id alone whether a session is among the `share` that is judged: the same after a restart, and in
    every collector. A larger share only adds sessions."""
    digest = hashlib.sha256(session_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _urgent(trace: Trace, looped: bool) -> str | None:
    if any(turn.error is not None for turn in trace.turns):
        return "a turn failed"
    if any(call.error is not None for call in trace.tool_calls):
        return "a tool call failed"
    return "the agent was in a loop" if looped else None
