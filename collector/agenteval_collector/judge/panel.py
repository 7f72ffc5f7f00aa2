"""Judge a trace by independent votes.

A panel chooses the questions of each vote, asks them in their order, and merges the scores.

    at once          extract (task, outcome, plan)   tools
    after extract    execution   completion   plan

A vote takes at most five requests for all seven metrics; two of them hold the transcript. It takes more only if
evaluators that share a question have models of their own. Confidence is a part of execution that needs no extraction.
It is asked at once if nothing else is asked with it, and alone if the extraction fails.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from statistics import median
from typing import Any, Final, TypeAlias, cast

from agenteval_collector.config.evaluators import ConstraintConfig
from agenteval_collector.config.judge import RubricConfig
from agenteval_collector.evaluation.evaluators.ports import not_applicable
from agenteval_collector.evaluation.referrals import JudgedEvaluator, preclude
from agenteval_collector.judge.asking import TraceQuestions
from agenteval_collector.judge.ports import NoAnswer, OverBudget, Question, Reading
from agenteval_collector.judge.prompt.background import background
from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.fitting import Redact
from agenteval_collector.judge.prompt.transcript import LEAST_TRANSCRIPT, earlier, question_data, transcript
from agenteval_collector.judge.questions import execution, extract, safety, scores, tools
from agenteval_collector.model import judge_jobs
from agenteval_collector.model.judge_jobs import Answer
from agenteval_collector.model.score_kinds import EXTRACT, JUDGED_KINDS
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Failure, Outcome, Status, Unscored

REQUESTS: Final = 5
"""The most requests that a vote on a trace takes with the built-in evaluators. Second looks keep to it too."""
SECOND_LOOKS: Final = 2
"""The most further votes of the evaluators whose score is near its threshold."""

_FROM_EXTRACT: Final = frozenset(kind.name for kind in JUDGED_KINDS.values() if kind.facts)
"""The evaluators whose questions need the extraction."""
_PLANS: Final = frozenset(kind.name for kind in JUDGED_KINDS.values() if extract.PLAN in kind.facts)

_VERSIONS: Final[Mapping[str, str]] = {
    EXTRACT: extract.VERSION,
    tools.NAME: tools.VERSION,
    execution.NAME: execution.VERSION,
    scores.COMPLETION: scores.COMPLETION_VERSION,
    scores.PLAN: scores.PLAN_VERSION,
}
"""The versions of the questions of `JUDGED_KINDS`."""


def _version(*questions: str) -> str:
    """Make the version of an evaluator from the versions of its questions. It rises with each of them."""
    return str(1 + sum(int(version) - 1 for version in questions))


JUDGED: Final[Mapping[str, str]] = {
    kind.name: _version(*(_VERSIONS[question] for question in kind.questions)) for kind in JUDGED_KINDS.values()
}
"""The built-in evaluators that ask a judge, each with its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A judged outcome and the model that gave it. The model is None if none was asked or none answered."""

    outcome: Outcome
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Ballot:
    """The score of one vote. `reading` finds it in `answer`.

    `version` is that of the question that was answered.
    """

    reading: Reading
    version: str
    answer: Answer

    @property
    def value(self) -> float:
        return self.reading.value(self.answer.reply)


Vote: TypeAlias = dict[str, Ballot | Judged]
"""The scores of one vote on a trace, by evaluator. A Judged stands if there is no score."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Judges a trace by several votes at once. `votes` is their number.

    An evaluator whose score is within `band` of its threshold gets up to two further votes. All votes together keep to
    `REQUESTS` requests for each of `votes`.

    `evaluators` are by name, including rubrics. `model` does the extraction. `redactor` makes a redaction for one
    trace, in which equal values stay recognisable.
    """

    model: str
    evaluators: Mapping[str, JudgedEvaluator]
    trace_tokens: int
    rubrics: tuple[RubricConfig, ...] = ()
    constraints: tuple[ConstraintConfig, ...] = ()
    redactor: Callable[[], Redact]
    votes: int = 1
    band: float = 0.0

    async def judge(self, trace: Trace, wanted: Collection[str], ask: TraceQuestions) -> dict[str, Judged]:
        """Return an outcome for each of `wanted` that is among the evaluators.

        Raises JudgeUnavailable even if other questions were answered. A cache can give those answers again.
        """
        to_ask = self.evaluators.keys() & set(wanted)
        precluded = {name: Judged(outcome=reason) for name in to_ask if (reason := preclude(trace, name))}
        names = frozenset(to_ask - precluded.keys())
        materials = Materials(self, trace)
        try:
            # Room is kept for all votes at once, so that a trace is judged whole or not at all.
            async with ask.room(self.votes * self.most(names)):
                return precluded | await self._judged(materials, names, ask)
        except OverBudget as bound:
            spent = Judged(outcome=Unscored(status=Status.OVER_BUDGET, reason=str(bound)))
            return precluded | dict.fromkeys(names, spent)

    async def _judged(self, materials: "Materials", names: frozenset[str], ask: TraceQuestions) -> dict[str, Judged]:
        first = await _all(OneVote(materials, names, ask, number).cast() for number in range(self.votes))
        cast = {name: [vote[name] for vote in first] for name in names}
        near, looks = self._second_look(cast, ask.requests)
        more = range(self.votes, self.votes + looks)
        for vote in await _all(OneVote(materials, near, ask, number).cast() for number in more):
            for name in near:
                cast[name].append(vote[name])
        return {name: merged(value) for name, value in cast.items()}

    def _second_look(self, cast: Mapping[str, Sequence[Ballot | Judged]], requests: int) -> tuple[frozenset[str], int]:
        """Return the evaluators to vote on again, and the number of further votes, after so many requests.

        Evaluators nearest to their threshold come first, as far as there are requests left.
        """
        margins = {name: margin(value, self.evaluators[name].threshold) for name, value in cast.items()}
        near = [name for name in margins if self.band and margins[name] <= self.band]
        requests_left = REQUESTS * self.votes - requests
        chosen: frozenset[str] = frozenset()
        # Equal margins are ordered by name. So the same trace is asked about in the same way, and the cache answers.
        for name in sorted(near, key=lambda name: (margins[name], name)):
            if self.most(chosen | {name}) <= requests_left:
                chosen |= {name}
        return chosen, min(SECOND_LOOKS, requests_left // self.most(chosen)) if chosen else 0

    def groups(self, names: Collection[str]) -> list[list[str]]:
        """Return the evaluators of each question in a vote. The evaluators of one question have one model."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name, evaluator in self.evaluators.items():
            if name in names:
                question = JUDGED_KINDS[name].question if name in JUDGED_KINDS else name
                groups.setdefault((question, evaluator.model), []).append(name)
        return list(groups.values())

    def most(self, names: Collection[str]) -> int:
        """Return the largest number of questions that a vote may need."""
        return len(self.groups(names)) + (not _FROM_EXTRACT.isdisjoint(names))


async def _all(votes: Iterable[Coroutine[Any, Any, Vote]]) -> list[Vote]:
    """Await all parts at once. The first part that raises cancels the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(vote) for vote in votes]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


async def _together(votes: Iterable[Coroutine[Any, Any, Vote]]) -> Vote:
    """Await all parts of one vote at once."""
    return {name: value for vote in await _all(votes) for name, value in vote.items()}


def merged(cast: Sequence[Ballot | Judged]) -> Judged:
    """Return the outcome of one evaluator's votes. There must be at least one vote.

    Failed votes are left out if other votes have a score. If most votes say that the evaluator does not apply,
    that is the outcome.
    """
    ballots = _ballots(cast)
    without = [vote for vote in cast if isinstance(vote, Judged)]
    void = [vote for vote in without if vote.outcome.status is Status.NOT_APPLICABLE]
    if len(void) > len(ballots) or not ballots:
        return (void or without)[0]
    values = [ballot.value for ballot in ballots]
    middle = median(values)
    nearest = min(ballots, key=lambda ballot: abs(ballot.value - middle))
    score = nearest.reading.conclude([ballot.answer.reply for ballot in ballots])
    metadata: dict[str, Json] = {"prompt_version": nearest.version, "temperature": nearest.answer.temperature}
    if len(ballots) > 1:
        metadata |= {"votes": len(ballots), "spread": max(values) - min(values)}
    return Judged(outcome=replace(score, metadata={**score.metadata, **metadata}), model=nearest.answer.model)


def margin(cast: Sequence[Ballot | Judged], threshold: float) -> float:
    """Return the distance of the votes of one evaluator from its threshold, infinite if none has a score."""
    ballots = _ballots(cast)
    return abs(median(ballot.value for ballot in ballots) - threshold) if ballots else inf


def _ballots(cast: Sequence[Ballot | Judged]) -> list[Ballot]:
    return [vote for vote in cast if isinstance(vote, Ballot)]


@dataclass(frozen=True)
class Materials:
    """The parts of a trace that all votes are shown, redacted and fitted once.

    The trace, what came before it and its background share `Panel.trace_tokens`.
    """

    panel: Panel
    trace: Trace

    @cached_property
    def redact(self) -> Redact:
        return self.panel.redactor()

    @cached_property
    def earlier(self) -> list[Json]:
        return earlier(self.trace, self.panel.trace_tokens // 3, self.redact)

    @cached_property
    def background(self) -> dict[str, Json]:
        """The facts about the agent that every question shows, within the room that a transcript leaves."""
        budget = self.panel.trace_tokens
        return background(self.trace, min(budget // 4, budget - budget // 3 - LEAST_TRANSCRIPT), self.redact)

    @property
    def room(self) -> int:
        """The tokens that are left for the trace itself."""
        beside = [part for part in (self.earlier, self.background) if part]
        return max(self.panel.trace_tokens - sum(tokens(encode(part)) for part in beside), LEAST_TRANSCRIPT)

    @cached_property
    def transcript(self) -> list[Json]:
        return transcript(self.trace, self.room, self.redact)

    @property
    def question_data(self) -> dict[str, Json]:
        return question_data(self.transcript, self.earlier)

    @cached_property
    def tool_use(self) -> tools.ShownTools:
        return tools.tool_use(self.trace, self.room, self.redact)

    @cached_property
    def planned(self) -> list[str]:
        """The plan that was recorded."""
        return extract.recorded_plan(self.trace, self.room // 4, self.redact)


@dataclass(frozen=True)
class OneVote:
    """The questions of one vote on a trace, and the scores of their answers for each evaluator in `asked`."""

    shown: Materials
    asked: frozenset[str]
    ask: TraceQuestions
    number: int

    @property
    def panel(self) -> Panel:
        return self.shown.panel

    async def cast(self) -> Vote:
        """Ask all questions of this vote."""
        # The extraction comes first, as other questions wait for it.
        extraction = [self.from_extract()] if self.asked & _FROM_EXTRACT else []
        at_once = [self.score(group, {}) for group in self.panel.groups(self.asked) if _FROM_EXTRACT.isdisjoint(group)]
        return await _together(extraction + at_once)

    async def from_extract(self) -> Vote:
        """Ask for the task, the outcome and the plan, and then the questions that need them.

        An evaluator that only shares a question with those that need them is asked even without them.
        """
        names = self.asked & _FROM_EXTRACT
        planned = self.shown.planned
        fields = {fact for name in names for fact in JUDGED_KINDS[name].facts if fact != extract.PLAN or not planned}
        question = extract.extract(self.shown.question_data, fields)
        answer = await self.answer(question, self.panel.model)
        facts: dict[str, Any] = {}
        lost: Vote = {}
        if not isinstance(answer, Answer):
            lost = {name: Judged(outcome=answer) for name in names}
        else:
            facts = {**answer.reply, extract.PLAN: planned or extract.stated(answer.reply.get(extract.PLAN, []))}
            if not facts[extract.PLAN]:
                unplanned = not_applicable("no plan: the judge found none in the trace")
                lost = {name: Judged(outcome=unplanned, model=answer.model) for name in names & _PLANS}
        waiting = [group for group in self.panel.groups(self.asked) if not _FROM_EXTRACT.isdisjoint(group)]
        waiting_groups = [[name for name in group if name not in lost] for group in waiting]
        return lost | await _together(self.score(group, facts) for group in waiting_groups if group)

    def question(self, group: Sequence[str], facts: Mapping[str, Any]) -> Question:
        """Make the question of a group of evaluators. `facts` are those of the extraction."""
        materials = self.shown
        name = group[0]
        kind = JUDGED_KINDS.get(name)
        task, plan = facts.get(extract.TASK, ""), facts.get(extract.PLAN, [])
        match kind.question if kind else name:
            case tools.NAME:
                question = tools.tools(materials.tool_use, group, materials.earlier)
            case execution.NAME:
                question = execution.execution(materials.question_data, group, task=task, plan=plan)
            case scores.COMPLETION:
                question = scores.completion(task, facts[extract.OUTCOME])
            case scores.PLAN:
                question = scores.plan_quality(task, plan)
            case safety.SAFETY:
                question = safety.safety_question(self.panel.constraints, materials.question_data)
            case judge_jobs.GOAL_SUCCESS:
                question = scores.goal_question(materials.question_data, materials.trace)
            case _:
                rubric = next(rubric for rubric in self.panel.rubrics if rubric.name == name)
                question = scores.rubric_question(rubric, materials.question_data)
        return question

    async def score(self, group: Sequence[str], facts: Mapping[str, Any]) -> Vote:
        """Ask the question of a group of evaluators."""
        question = self.question(group, facts)
        answer = await self.answer(question, self.panel.evaluators[group[0]].model)
        if not isinstance(answer, Answer):
            return {name: Judged(outcome=answer) for name in group}
        return {name: Ballot(reading, question.version, answer) for name, reading in question.readings.items()}

    async def answer(self, question: Question, model: str) -> Answer | Failure | Unscored:
        """Ask a question. Return its answer, or the outcome of everything that depends on it."""
        # The materials are redacted already. But facts from the extraction are the judge's words, which are not.
        data = self.shown.background | cast("dict[str, Json]", self.shown.redact(dict(question.data)))
        try:
            return await self.ask(replace(question, data=data), model=model, vote=self.number)
        except NoAnswer as none:
            return Failure(error_type=none.error_type, reason=f"the judge's question {question.name!r}: {none}")
        except OverBudget as bound:
            return Unscored(status=Status.OVER_BUDGET, reason=str(bound))
