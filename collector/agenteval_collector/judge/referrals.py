"""Decide which outcomes of a trace are left to the judge, when the trace is evaluated and without asking."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agenteval_collector.config import NO_JUDGE
from agenteval_collector.judge.nothing_to_judge import preclude
from agenteval_collector.judge.selection import Selection, select
from agenteval_collector.model.judging import URGENT, Referral
from agenteval_collector.runtime.lru import Recent
from otel_agenteval.model import Json, Trace
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


class Referrals:
    """Gives a trace an outcome of each of `evaluators`: unscored where nothing is to be judged, sampled out where the
    session is not among the `share` that is judged, else pending.

    A session is judged whole: from an urgent trace on, all others are judged too. `judged` says of a session whether a
    trace of it was left to the judge in an earlier run.
    """

    def __init__(self, evaluators: Sequence[JudgedEvaluator], share: float, judged: Callable[[str], bool]) -> None:
        self._evaluators = evaluators
        self._share = share
        self._judged_before = judged
        self._judged: Recent[str, bool] = Recent(SESSIONS)

    def refer(self, trace: Trace, session_id: str, *, looped: bool) -> list[Referral]:
        selection = select(trace, session_id, self._share, looped=looped)
        if not selection.judged and self._is_judged(session_id):
            reason = "waiting for the judge, as another trace of the session is judged"
            selection = Selection(judged=True, urgent=False, reason=reason)
        urgent: dict[str, Json] = {URGENT: True} if selection.urgent else {}
        status = Status.PENDING if selection.judged else Status.SAMPLED_OUT
        selected = Unscored(status=status, reason=selection.reason, metadata=urgent)
        referrals = _referrals(self._evaluators, trace, selected)
        if any(each.outcome.status is Status.PENDING for each in referrals):
            self._judged.put(session_id, True)
        return referrals

    def _is_judged(self, session_id: str) -> bool:
        known = self._judged.get(session_id)
        if known is None:
            known = self._judged_before(session_id)
            self._judged.put(session_id, known)
        return known


class NoJudge:
    """Gives a trace an outcome of each of `evaluators`, where nobody can be asked: unscored where nothing would be
    judged, else `no_judge`."""

    def __init__(self, evaluators: Sequence[JudgedEvaluator]) -> None:
        self._evaluators = evaluators

    def refer(self, trace: Trace, session_id: str, *, looped: bool) -> list[Referral]:
        return _referrals(self._evaluators, trace, Unscored(status=Status.NO_JUDGE, reason=NO_JUDGE))


def _referrals(evaluators: Sequence[JudgedEvaluator], trace: Trace, otherwise: Unscored) -> list[Referral]:
    """Give each evaluator that the trace concerns the reason why it cannot be judged, or the outcome `otherwise`."""
    return [
        _referral(each, preclude(trace, each.name) or otherwise)
        for each in evaluators
        if trace.run is not None or not each.of_runs
    ]


def _referral(evaluator: JudgedEvaluator, outcome: Unscored) -> Referral:
    return Referral(
        name=evaluator.name,
        version=evaluator.version,
        model=evaluator.model if outcome.status is Status.PENDING else None,
        threshold=evaluator.threshold,
        outcome=outcome,
    )
