"""One vote on a trace: choose the questions, ask them in their order, and read the scores in the answers.

    at once          extract (task, outcome, plan)   tools
    after extract    execution   completion   plan

At most five requests for all seven metrics, two of them with the transcript; more only where evaluators that share a
question have models of their own. Confidence is a part of execution that needs no extraction: where nothing else is
asked with it, it is asked at once, and where the extraction fails, alone.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, cast

from agenteval_collector.evaluators.ports import not_applicable
from agenteval_collector.judge.materials import Materials, PanelSettings
from agenteval_collector.judge.ports import Answer, Ask, NoAnswer, OverBudget, Question
from agenteval_collector.judge.questions import completion, execution, extract, plan, tools
from agenteval_collector.judge.questions.goal import goal_question
from agenteval_collector.judge.questions.rubric import rubric_question
from agenteval_collector.judge.questions.safety import SAFETY, safety_question
from agenteval_collector.judge.votes import Ballot, Judged, Vote
from agenteval_collector.model.judging import GOAL_SUCCESS
from otel_agenteval.model import Json
from otel_agenteval.outcome import Failure, Status, Unscored

_FROM_EXTRACT: Final = ("task_completion", "step_efficiency", "plan_adherence", "plan_quality")
_PLANS: Final = ("plan_adherence", "plan_quality")


@dataclass(frozen=True)
class OneVote:
    """The questions about one trace, and what their answers come to for each evaluator in `asked`."""

    shown: Materials
    asked: frozenset[str]
    ask: Ask
    number: int = 0

    @property
    def panel(self) -> PanelSettings:
        return self.shown.panel

    @property
    def most(self) -> int:
        """The largest number of questions that there may be."""
        names = self.asked.intersection(_FROM_EXTRACT)
        groups = self.by_model(name for name in execution.NAMES if name in names | self.sharing)
        rest = names.intersection(("task_completion", "plan_quality"))
        return len(self.at_once) + bool(names) + len(groups) + len(rest)

    async def cast(self) -> Vote:
        """Ask."""
        # The extraction is first: others wait for it.
        extraction = [self.from_extract()] if self.asked.intersection(_FROM_EXTRACT) else []
        return await _together(extraction + [self.score(question) for question in self.at_once])

    @cached_property
    def at_once(self) -> list[Question]:
        """The questions that need no extraction."""
        questions = self.tool_questions()
        if execution.CONFIDENCE in self.asked - self.sharing:
            questions.append(self.confidence())
        if SAFETY in self.asked:
            threshold = self.panel.thresholds[SAFETY]
            questions.append(
                safety_question(self.panel.constraints, self.shown.transcript, threshold, self.shown.earlier)
            )
        if GOAL_SUCCESS in self.asked:
            turns = len(self.shown.trace.turns)
            questions.append(goal_question(self.shown.transcript, turns, self.panel.thresholds[GOAL_SUCCESS]))
        rubrics = [rubric for rubric in self.panel.rubrics if rubric.name in self.asked]
        return questions + [rubric_question(rubric, self.shown.transcript, self.shown.earlier) for rubric in rubrics]

    @cached_property
    def sharing(self) -> frozenset[str]:
        """The evaluators that are asked with execution after the extraction."""
        groups = self.by_model(execution.NAMES)
        return frozenset(name for group in groups if group.keys() != {execution.CONFIDENCE} for name in group)

    def confidence(self) -> Question:
        return self.execution({execution.CONFIDENCE: self.panel.thresholds["confidence"]})

    def execution(self, thresholds: Mapping[str, float], task: str = "", planned: Sequence[str] = ()) -> Question:
        shown = self.shown
        return execution.execution(shown.transcript, thresholds, task=task, plan=planned, earlier=shown.earlier)

    def tool_questions(self) -> list[Question]:
        groups = self.by_model((tools.TOOL_CORRECTNESS, tools.ARGUMENT_CORRECTNESS))
        if not groups:
            return []
        return [tools.tools(self.shown.tool_use, thresholds, self.shown.earlier) for thresholds in groups]

    async def from_extract(self) -> Vote:
        """Find the outcomes that rest on task, outcome and plan."""
        names = self.asked.intersection(_FROM_EXTRACT)
        planned = self.shown.planned
        needed = {
            extract.TASK: True,
            extract.OUTCOME: "task_completion" in names,
            extract.PLAN: not planned and not names.isdisjoint(_PLANS),
        }
        fields = [name for name, is_needed in needed.items() if is_needed]
        question = extract.extract(self.shown.transcript, fields, self.shown.earlier)
        answer = await self.answer(question, self.panel.model)
        if not isinstance(answer, Answer):
            lost: Vote = {name: Judged(outcome=answer) for name in names}
            return lost | (await self.score(self.confidence()) if execution.CONFIDENCE in self.sharing else {})
        facts = answer.reply
        planned = planned or plan.stated(facts.get(extract.PLAN, []))
        found: Vote = {}
        if not planned:
            unplanned = not_applicable("no plan: the judge found none in the trace")
            found = {name: Judged(outcome=unplanned, model=answer.model) for name in names.intersection(_PLANS)}
        questions = self.after_extract(facts, planned, (names | self.sharing) - found.keys())
        return found | await _together(self.score(question) for question in questions)

    def after_extract(self, facts: Mapping[str, Any], planned: list[str], names: frozenset[str]) -> list[Question]:
        task, thresholds = facts[extract.TASK], self.panel.thresholds
        groups = self.by_model(name for name in execution.NAMES if name in names)
        questions = [self.execution(group, task, planned) for group in groups]
        if "task_completion" in names:
            outcome = facts[extract.OUTCOME]
            questions.append(completion.completion(task, outcome, thresholds["task_completion"]))
        if "plan_quality" in names:
            questions.append(plan.plan_quality(task, planned, thresholds["plan_quality"]))
        return questions

    def by_model(self, names: Iterable[str]) -> list[dict[str, float]]:
        """Group the thresholds of those that are asked by model."""
        groups: dict[str, dict[str, float]] = {}
        for name in names:
            if name in self.asked:
                groups.setdefault(self.model_of(name), {})[name] = self.panel.thresholds[name]
        return list(groups.values())

    def model_of(self, name: str) -> str:
        return self.panel.models.get(name, self.panel.model)

    async def score(self, question: Question) -> Vote:
        """Ask a question that ends in scores."""
        answer = await self.answer(question, self.model_of(question.readings[0].evaluator))
        if not isinstance(answer, Answer):
            return {each.evaluator: Judged(outcome=answer) for each in question.readings}
        return {
            each.evaluator: Ballot(
                reading=each,
                reply=answer.reply,
                version=question.version,
                model=answer.model,
                temperature=answer.temperature,
            )
            for each in question.readings
        }

    async def answer(self, question: Question, model: str) -> Answer | Failure | Unscored:
        """Ask a question. Returns its answer, or the outcome of all that depends on it."""
        data = cast("dict[str, Json]", self.shown.redact(dict(question.data)))
        try:
            return await self.ask(replace(question, data=data), model=model, vote=self.number)
        except NoAnswer as none:
            return Failure(error_type=none.error_type, reason=f"the judge's question {question.name!r}: {none}")
        except OverBudget as bound:
            return Unscored(status=Status.OVER_BUDGET, reason=str(bound))


async def _together(parts: Iterable[Coroutine[Any, Any, Vote]]) -> Vote:
    """Await all parts at once. The first that raises ends the others, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return {name: each for task in tasks for name, each in task.result().items()}
