"""Decide at evaluation which outcomes of a trace are left to the judge. Nothing is asked here."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from agenteval_collector.config.judge import NO_JUDGE
from agenteval_collector.evaluators.ports import not_applicable, unanswered, unasked, unrecorded
from agenteval_collector.judge.questions.extract import may_have_plan
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.judge_jobs import PROBABILITY, Referral
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace
from otel_agenteval.outcome import JudgedPart, Outcome, Status, Unscored

PLACES: Final = 10
"""The most places that are kept. After a quiet time, this many sessions may be escalated one after the other."""
KEPT_FOR_ERRORS: Final = 5
"""Places that a session without an error cannot take, unless every session gets a place."""

_WITHOUT_ANSWER: Final = ("tool_correctness", "argument_correctness", "plan_quality")
"""The evaluators that look at what was done or planned before the answer. They need no answer."""
SESSIONS: Final = 10_000
"""The number of sessions that are remembered with their part of the sample."""

PartsOf: TypeAlias = Callable[[str], frozenset[JudgedPart | None]]
"""Returns the parts of the sample that the traces of a session were judged in.

Only traces with something to judge count. None stands for those that were sampled out. The set is empty for a session
that was not seen before.
"""


class Escalation:
    """Gives places to sessions with findings. Belongs to the evaluation's thread.

    Each new session adds `share` of a place, and an escalated session takes a whole place. So at no time are more than
    `share` of the sessions escalated. It starts without places, so this also holds over a restart.
    """

    def __init__(self, share: float, telemetry: Telemetry) -> None:
        self.share = share
        self._telemetry = telemetry
        self._places = 0.0

    def saw_session(self) -> None:
        """Add the share of a session that was not seen before."""
        self._places = min(self._places + self.share, PLACES)

    def take(self, worst: Severity, *, counts: bool) -> bool:
        """Take a place for a session whose worst finding has this severity. Return True where there was one.

        Each place that is taken is counted. A missing place is counted where the session `counts`. Each session counts
        once, however many of its traces find no place.
        """
        kept = 0.0 if worst is Severity.ERROR or self.share >= 1.0 else KEPT_FOR_ERRORS
        has_place = self._places - kept >= 1.0
        if has_place:
            self._places -= 1.0
        # A session that finds no place at first and gets one later is counted both ways.
        if has_place or counts:
            self._telemetry.count(Counted.ESCALATED if has_place else Counted.NOT_ESCALATED)
        return has_place


def preclude(trace: Trace, name: str) -> Unscored | None:
    """Return why the judged evaluator or rubric `name` cannot score `trace`. None means that the judge is to be asked.

    An empty answer and a failed turn are judged, as they are the result of the task.
    """
    return _nothing_to_judge(trace) or _nothing_for(trace, name)


def _nothing_to_judge(trace: Trace) -> Unscored | None:
    """Return the reason why no evaluator can score the trace; None where there is a question and work on it."""
    if not trace.turns:
        return unanswered(trace)
    if trace.turn_goes_on:
        return not_applicable("the turn goes on in another trace")
    if all(turn.input is None for turn in trace.turns):
        return unasked(trace)
    if not any(turn.input or turn.error is not None for turn in trace.turns):
        return not_applicable("the user's input is empty")
    return None


def _nothing_for(trace: Trace, name: str) -> Unscored | None:
    """Return the reason why the evaluator `name` cannot score a trace that has a question: no answer, tools or plan."""
    last = trace.turns[-1]
    if name not in _WITHOUT_ANSWER and last.output is None and last.error is None:
        return unanswered(trace)
    match name:
        case "tool_correctness" if not (trace.tool_calls or trace.available_tools):
            return not_applicable("no tools")
        case "argument_correctness" if not trace.tool_calls:
            return not_applicable("no tool calls")
        case "argument_correctness" if all(call.arguments is None for call in trace.tool_calls):
            return unrecorded("the arguments of tool calls", trace)
        case "plan_adherence" | "plan_quality" if not may_have_plan(trace):
            return not_applicable("no plan: none was recorded, and nothing that could be evidence of one")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvaluator:
    """A built-in evaluator or a rubric that asks the judge. `of_runs` limits it to traces of runs."""

    name: str
    version: str
    model: str
    threshold: float
    of_runs: bool = False


class Selection(NamedTuple):
    """The part of the sample that a trace belongs to, and the outcome that this gives its judged evaluators."""

    part: JudgedPart | None
    outcome: Unscored


@dataclass(frozen=True, slots=True)
class Referrals:
    """Gives a trace an outcome of each of `evaluators`: pending, sampled out, or unscored with nothing to judge.

    A session is judged in one part. It is in the random part where its id is drawn. Otherwise it is in the escalated
    part, from the trace on whose findings got it a place. `parts_of` returns the parts of a session from before the
    collector started.
    """

    evaluators: Sequence[JudgedEvaluator]
    share: float
    escalation: Escalation
    parts_of: PartsOf
    goal: JudgedEvaluator | None = None
    known: LruMap[str, frozenset[JudgedPart | None]] = field(init=False, default_factory=lambda: LruMap(SESSIONS))
    refused: LruMap[str, bool] = field(init=False, default_factory=lambda: LruMap(SESSIONS))

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> list[Referral]:
        concerned = _concerned(self.evaluators, trace)
        # Nothing will be asked, so the session is not looked up, and takes no place.
        if all(precluded is not None for _, precluded in concerned):
            return _referrals(concerned, self._left_out())
        return _referrals(concerned, self._select(session_id, findings))

    def refer_session(self, session_id: str) -> Referral | None:
        """Leave the goal of a session that is over to the judge, where the session is judged.

        Return None where goals are not judged.
        """
        if self.goal is None:
            return None
        [referral] = _referrals([(self.goal, None)], self._select(session_id, ()))
        return referral

    def _select(self, session_id: str, findings: Sequence[Finding]) -> Selection:
        # The usual case, where all sessions are judged, needs no memory of sessions and no call of the store.
        if self.share >= 1.0:
            return _drawn(self.share)
        known = self.known.get(session_id)
        parts = self.parts_of(session_id) if known is None else known
        if not parts:
            self.escalation.saw_session()
        if sampled(session_id, self.share):
            selection = _drawn(self.share)
        elif JudgedPart.ESCALATED in parts:
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


_NOBODY: Final = Selection(None, Unscored(status=Status.NO_JUDGE, reason=NO_JUDGE))


@dataclass(frozen=True, slots=True)
class NoJudge:
    """Gives a trace an outcome of each of `evaluators` where there is no judge.

    The outcome is unscored where nothing would be judged. Otherwise it is `no_judge`.
    """

    evaluators: Sequence[JudgedEvaluator]

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> list[Referral]:
        return _referrals(_concerned(self.evaluators, trace), _NOBODY)

    def refer_session(self, session_id: str) -> Referral | None:
        return None


def _concerned(evaluators: Sequence[JudgedEvaluator], trace: Trace) -> list[tuple[JudgedEvaluator, Outcome | None]]:
    """Return the evaluators that concern the trace, each with the reason why it cannot be judged.

    The reason is None where it can be judged.
    """
    concerned = [each for each in evaluators if trace.run is not None or not each.of_runs]
    # Asked once for all: most collectors have no judge, and pay this for every trace.
    whole = _nothing_to_judge(trace)
    return [(each, whole or _nothing_for(trace, each.name)) for each in concerned]


def _referrals(concerned: Sequence[tuple[JudgedEvaluator, Outcome | None]], selection: Selection) -> list[Referral]:
    """Give each evaluator its reason why it cannot judge, or else the outcome of the selection."""
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
    return Selection(JudgedPart.RANDOM, pending)


def _escalated(why: str) -> Selection:
    return Selection(JudgedPart.ESCALATED, Unscored(status=Status.PENDING, reason=f"waiting for the judge, {why}"))


def _cause(findings: Sequence[Finding]) -> Finding | None:
    """Return the first of the worst findings. Return None where none is an error or a warning."""
    ranked = [each for severity in (Severity.ERROR, Severity.WARNING) for each in findings if each.severity is severity]
    return ranked[0] if ranked else None


def sampled(session_id: str, share: float) -> bool:
    """Return True where a session is drawn at random as one of the `share`.

    The id alone decides. So the answer is the same after a restart and in every collector. A larger share only adds
    sessions.
    """
    # Recorded ids may hold lone surrogates, which cannot be encoded otherwise.
    digest = hashlib.sha256(session_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
