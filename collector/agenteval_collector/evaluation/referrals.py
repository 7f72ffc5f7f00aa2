"""Decide at evaluation which outcomes of a trace are left to the judge. Nothing is asked here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from agenteval_collector.config.judge import NO_JUDGE
from agenteval_collector.evaluation.evaluators.ports import not_applicable, unanswered, unasked, unrecorded
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.judge_jobs import PROBABILITY, Referral, lot
from agenteval_collector.model.score_kinds import JUDGED_KINDS, Need
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Json, Trace, Turn
from otel_agenteval.outcome import JudgedPart, Status, Unscored

PLACES: Final = 10
"""The most places that are kept. After a quiet time, this many sessions may be escalated one after the other."""
KEPT_FOR_ERRORS: Final = 5
"""Places that a session without an error cannot take, unless every session gets a place."""

_NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {kind.name: kind.needs for kind in JUDGED_KINDS.values()}
_OF_RUBRICS: Final[tuple[Need, ...]] = ("answer",)
"""The needs of a rubric, and of `safety`."""
SESSIONS: Final = 10_000
"""The number of sessions that are remembered with their part of the sample."""

PartsOf: TypeAlias = Callable[[str], frozenset[JudgedPart | None]]
"""Returns the parts of the sample that the traces of a session were judged in.

Only traces with something to judge count. None stands for those that were sampled out. The set is empty for a session
that was not seen before.
"""


def preclude(trace: Trace, name: str) -> Unscored | None:
    """Return why the judged evaluator or rubric `name` cannot score `trace`. None means that the judge is to be asked.

    An empty answer and a failed turn are judged, as they are the result of the task.
    """
    return _nothing_to_judge(trace) or _nothing_for(trace, name)


def _nothing_to_judge(trace: Trace) -> Unscored | None:
    """Return the reason why no evaluator can score the trace; None if there is a question and work on it."""
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
    for need in _NEEDS.get(name, _OF_RUBRICS):
        if (reason := _without(trace, need)) is not None:
            return reason
    return None


def _without(trace: Trace, need: Need) -> Unscored | None:
    """Return the outcome of a trace that lacks `need`; None if it has it."""
    match need:
        case "answer" if trace.turns[-1].output is None and trace.turns[-1].error is None:
            return unanswered(trace)
        case "plan" if not may_have_plan(trace):
            return not_applicable("no plan: none was recorded, and nothing that could be evidence of one")
        case "tools" if not (trace.tool_calls or trace.available_tools):
            return not_applicable("no tools")
        case "calls" if not trace.tool_calls:
            return not_applicable("no tool calls")
        case "calls" if all(call.arguments is None for call in trace.tool_calls):
            return unrecorded("what the tools were called with", trace)
    return None


def may_have_plan(trace: Trace) -> bool:
    """Return True if there is a plan, or anything that could be evidence of one."""
    # The texts are those of the transcript's entries, but no entries are made. Every trace gets here, judge or not.
    return any(says_something(text) for turn in trace.turns for text in _evidence(turn))


def _evidence(turn: Turn) -> Iterator[str]:
    replies = [call.output for call in turn.model_calls if call.output is not None]
    texts = set(replies)
    yield from turn.reasoning
    yield from (text for text in turn.plan if text not in texts)
    # The last reply is left out if it is the answer: the transcript shows it as such, not as a reply on the way.
    yield from replies[:-1] if replies and replies[-1] == turn.output else replies


def says_something(text: Json) -> bool:
    """Return True for a text that is not blank."""
    return isinstance(text, str) and bool(text.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvaluator:
    """A built-in evaluator or a rubric that asks the judge. `of_runs` limits it to traces of runs."""

    name: str
    version: str
    model: str
    threshold: float
    of_runs: bool = False


class Selection(NamedTuple):
    """The part of the sample that a trace is judged in, None if it is not, and the outcome of a judged evaluator."""

    part: JudgedPart | None
    outcome: Unscored


class SessionSample:
    """Selects the sessions that are judged. Belongs to the evaluation's thread.

    A session is judged in one part. It is in the random part if its id is drawn, with the probability `share`.
    Otherwise it is in the escalated part, from the trace on whose findings got it a place. `parts_of` returns the parts
    of a session from before the collector started.

    Each new session adds `escalate` of a place, and an escalated session takes a whole place. So at no time are more
    than `escalate` of the sessions escalated. It starts without places, so this also holds over a restart.
    """

    def __init__(self, share: float, escalate: float, parts_of: PartsOf, telemetry: Telemetry) -> None:
        self._share = share
        self._escalate = escalate
        self._parts_of = parts_of
        self._telemetry = telemetry
        self._places = 0.0
        self._known: LruMap[str, frozenset[JudgedPart | None]] = LruMap(SESSIONS)
        self._refused: LruMap[str, bool] = LruMap(SESSIONS)

    def select(self, session_id: str, findings: Sequence[Finding]) -> Selection:
        """Select a session. The places taken are counted, and the sessions that found none at first."""
        # The usual case, if all sessions are judged, needs no memory of sessions and no call of the store.
        if self._share >= 1.0:
            return _drawn(self._share)
        referral = self._known.get(session_id)
        session_parts = self._parts_of(session_id) if referral is None else referral
        if not session_parts:
            self._places = min(self._places + self._escalate, PLACES)
        if sampled(session_id, self._share):
            selection = _drawn(self._share)
        elif JudgedPart.ESCALATED in session_parts:
            selection = _escalated("as its session was escalated")
        else:
            selection = self._outside_the_sample(session_id, findings)
        self._known.put(session_id, frozenset([selection.part]))
        return selection

    def _outside_the_sample(self, session_id: str, findings: Sequence[Finding]) -> Selection:
        cause, but = _cause(findings), ""
        if cause is not None:
            share = 0.0 if cause.severity is Severity.ERROR or self._escalate >= 1.0 else KEPT_FOR_ERRORS
            if self._places - share >= 1.0:
                self._places -= 1.0
                # A session that finds no place at first and gets one later is counted both ways.
                self._telemetry.count(Counted.ESCALATED)
                return _escalated(f"escalated for {cause.kind}")
            if not self._refused.get(session_id):
                self._telemetry.count(Counted.NOT_ESCALATED)
                self._refused.put(session_id, True)
            but = f"; for its {cause.kind} there was no place (judge.escalate {self._escalate:g})"
        reason = f"sampled out: the session is not among the {self._share * 100:.10g} % that are judged{but}"
        return Selection(None, Unscored(status=Status.SAMPLED_OUT, reason=reason))


@dataclass(slots=True)
class Referrals:
    """Chooses the outcomes that are left to the judge. It does not ask the judge.

    A trace gets an outcome of each of `evaluators`: unscored with nothing to judge, or else that of its session.
    Without a `sample` there is no judge. `goal` judges sessions that are over.
    """

    evaluators: Sequence[JudgedEvaluator]
    sample: SessionSample | None
    goal: JudgedEvaluator | None = None

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> list[Referral]:
        """Return the judged outcomes of a trace with these findings, pending and final ones."""
        concerned = [evaluator for evaluator in self.evaluators if trace.run is not None or not evaluator.of_runs]
        # Asked once for all: most collectors have no judge, and pay this for every trace.
        whole = _nothing_to_judge(trace)
        precluded = [whole or _nothing_for(trace, evaluator.name) for evaluator in concerned]
        if None not in precluded:
            # Nothing will be asked: the session is not looked up, and takes no place.
            return [
                _referral(evaluator, Selection(None, why))
                for evaluator, why in zip(concerned, precluded, strict=True)
                if why
            ]
        selected = self._select(session_id, findings)
        selections = (Selection(None, why) if why else selected for why in precluded)
        return list(map(_referral, concerned, selections))

    def refer_session(self, session_id: str) -> Referral | None:
        """Leave the goal of a session that is over to the judge, if the session is judged.

        Return None if goals are not judged.
        """
        return None if self.goal is None else _referral(self.goal, self._select(session_id, ()))

    def _select(self, session_id: str, findings: Sequence[Finding]) -> Selection:
        if self.sample is None:
            return Selection(None, Unscored(status=Status.NO_JUDGE, reason=NO_JUDGE))
        return self.sample.select(session_id, findings)


def _referral(evaluator: JudgedEvaluator, selection: Selection) -> Referral:
    judged_part, outcome = selection
    return Referral(
        name=evaluator.name,
        version=evaluator.version,
        model=evaluator.model if outcome.status is Status.PENDING else None,
        threshold=evaluator.threshold,
        outcome=outcome,
        part=judged_part,
    )


def _drawn(share: float) -> Selection:
    pending = Unscored(status=Status.PENDING, reason="waiting for the judge", metadata={PROBABILITY: share})
    return Selection(JudgedPart.RANDOM, pending)


def _escalated(why: str) -> Selection:
    return Selection(JudgedPart.ESCALATED, Unscored(status=Status.PENDING, reason=f"waiting for the judge, {why}"))


def _cause(findings: Sequence[Finding]) -> Finding | None:
    """Return the first of the worst findings. Return None if none is an error or a warning."""
    ranked = [
        finding
        for severity in (Severity.ERROR, Severity.WARNING)
        for finding in findings
        if finding.severity is severity
    ]
    return ranked[0] if ranked else None


def sampled(session_id: str, share: float) -> bool:
    """Return True if a session is drawn at random as one of the `share`.

    The id alone decides. So the answer is the same after a restart and in every collector. A larger share only adds
    sessions.
    """
    return int.from_bytes(lot(session_id)[:8], "big") < share * 2**64
