"""Decide which outcomes of a trace are left to the judge, when the trace is evaluated and without asking."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from agenteval_collector.config import NO_JUDGE
from agenteval_collector.judge.escalation import Escalation
from agenteval_collector.judge.nothing_to_judge import preclude
from agenteval_collector.model.judging import PROBABILITY, Referral
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.lru import Recent
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Outcome, Part, Status, Unscored

SESSIONS: Final = 10_000
"""Sessions that are remembered with their part of the sample."""

PartsOf: TypeAlias = Callable[[str], frozenset[Part | None]]
"""The parts of a session's traces that there was something to judge in; None stands for those that are sampled out.
Empty for a session that was not seen before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvaluator:
    """A built-in evaluator or a rubric that asks the judge; `of_runs`: about traces of runs alone."""

    name: str
    version: str
    model: str
    threshold: float
    of_runs: bool = False


class Selection(NamedTuple):
    """The part of the sample that a trace belongs to, and what this makes of its judged outcomes."""

    part: Part | None
    outcome: Unscored


@dataclass(frozen=True, slots=True)
class Referrals:
    """Gives a trace an outcome of each of `evaluators`: pending, sampled out, or unscored with nothing to judge.

    A session is judged whole, and in one part: in the random one where its id is drawn, else in the escalated one from
    the trace on whose findings got it a place. `parts_of` says what became of it in an earlier run.
    """

    evaluators: Sequence[JudgedEvaluator]
    share: float
    escalation: Escalation
    parts_of: PartsOf
    goal: JudgedEvaluator | None = None
    known: Recent[str, frozenset[Part | None]] = field(init=False, default_factory=lambda: Recent(SESSIONS))
    refused: Recent[str, bool] = field(init=False, default_factory=lambda: Recent(SESSIONS))

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> list[Referral]:
        concerned = _concerned(self.evaluators, trace)
        if all(precluded is not None for _, precluded in concerned):
            return _referrals(concerned, self._left_out())
        return _referrals(concerned, self._select(session_id, findings))

    def refer_session(self, session_id: str) -> Referral | None:
        """Leave the goal of a session that is over to the judge, where the session is judged; None: it is off."""
        if self.goal is None:
            return None
        if sampled(session_id, self.share):
            selection = _drawn(self.share)
        elif Part.ESCALATED in self._parts(session_id):
            selection = _escalated("as its session was escalated")
        else:
            selection = self._left_out()
        [referral] = _referrals([(self.goal, None)], selection)
        return referral

    def _select(self, session_id: str, findings: Sequence[Finding]) -> Selection:
        if self.share >= 1.0:
            return _drawn(self.share)
        parts = self._parts(session_id)
        if not parts:
            self.escalation.saw_session()
        if sampled(session_id, self.share):
            selection = _drawn(self.share)
        elif Part.ESCALATED in parts:
            selection = _escalated("as its session was escalated")
        else:
            selection = self._outside_the_sample(session_id, findings)
        self.known.put(session_id, frozenset([selection.part]))
        return selection

    def _outside_the_sample(self, session_id: str, findings: Sequence[Finding]) -> Selection:
        cause = _cause(findings)
        if cause is None:
            return self._left_out()
        is_first = not self.refused.get(session_id)
        if self.escalation.take(cause.severity, counts=is_first):
            return _escalated(f"escalated for {cause.kind}")
        self.refused.put(session_id, True)
        return self._left_out(f"; for its {cause.kind} there was no place (judge.escalate {self.escalation.share:g})")

    def _left_out(self, but: str = "") -> Selection:
        reason = f"sampled out: the session is not among the {self.share * 100:.10g} % that are judged{but}"
        return Selection(None, Unscored(status=Status.SAMPLED_OUT, reason=reason))

    def _parts(self, session_id: str) -> frozenset[Part | None]:
        known = self.known.get(session_id)
        return self.parts_of(session_id) if known is None else known


@dataclass(frozen=True, slots=True)
class NoJudge:
    """Gives a trace an outcome of each of `evaluators`, where nobody can be asked: unscored where nothing would be
    judged, else `no_judge`."""

    evaluators: Sequence[JudgedEvaluator]

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> list[Referral]:
        nobody = Selection(None, Unscored(status=Status.NO_JUDGE, reason=NO_JUDGE))
        return _referrals(_concerned(self.evaluators, trace), nobody)

    def refer_session(self, session_id: str) -> Referral | None:
        return None


def _concerned(evaluators: Sequence[JudgedEvaluator], trace: Trace) -> list[tuple[JudgedEvaluator, Outcome | None]]:
    """Return the evaluators that the trace concerns, each with the reason why it cannot be judged; None: it can."""
    concerned = [each for each in evaluators if trace.run is not None or not each.of_runs]
    return [(each, preclude(trace, each.name)) for each in concerned]


def _referrals(concerned: Sequence[tuple[JudgedEvaluator, Outcome | None]], selection: Selection) -> list[Referral]:
    """Give each evaluator the reason why it cannot judge, or what the selection says."""
    is_judged = selection.outcome.status is Status.PENDING
    return [
        Referral(
            name=each.name,
            version=each.version,
            model=each.model if is_judged and precluded is None else None,
            threshold=each.threshold,
            outcome=precluded or selection.outcome,
            part=selection.part if precluded is None else None,
        )
        for each, precluded in concerned
    ]


def _drawn(share: float) -> Selection:
    pending = Unscored(status=Status.PENDING, reason="waiting for the judge", metadata={PROBABILITY: share})
    return Selection(Part.RANDOM, pending)


def _escalated(why: str) -> Selection:
    return Selection(Part.ESCALATED, Unscored(status=Status.PENDING, reason=f"waiting for the judge, {why}"))


def _cause(findings: Sequence[Finding]) -> Finding | None:
    """Return the first of the worst findings; None where none is an error or a warning."""
    for severity in (Severity.ERROR, Severity.WARNING):
        for finding in findings:
            if finding.severity is severity:
                return finding
    return None


def sampled(session_id: str, share: float) -> bool:
    """Tell by its id alone whether a session is drawn at random, as one of the `share`: the same after a restart, and
    in every collector. A larger share only adds sessions."""
    digest = hashlib.sha256(session_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
