"""Judge a trace: choose the questions, ask them in their order, and turn the answers into outcomes.

    at once          extract (task, outcome, plan)   tools
    after extract    execution   completion   plan

At most five requests for all seven metrics, two of them with the transcript; more only where evaluators that share a
question have models of their own. Confidence is a part of execution that needs no extraction: where nothing else is
asked with it, it is asked at once, and where the extraction fails, alone.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, cast

from agenteval_collector.config import ConstraintConfig, RubricConfig
from agenteval_collector.evaluators.ports import not_applicable
from agenteval_collector.judge.client.ports import NoAnswer
from agenteval_collector.judge.nothing_to_judge import preclude
from agenteval_collector.judge.ports import Answer, Ask, OverBudget, Question, Reading
from agenteval_collector.judge.prompt.fitting import Redact
from agenteval_collector.judge.prompt.transcript import transcript
from agenteval_collector.judge.questions import completion, execution, extract, plan, tools
from agenteval_collector.judge.questions.rubric import rubric_question
from agenteval_collector.judge.questions.safety import SAFETY, safety_question
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Failure, Outcome, Status, Unscored

_FROM_EXTRACT: Final = ("task_completion", "step_efficiency", "plan_adherence", "plan_quality")
_PLANS: Final = ("plan_adherence", "plan_quality")


def _version(*questions: str) -> str:
    """Make the version of an evaluator that rests on these questions: it rises with each of theirs."""
    return str(1 + sum(int(version) - 1 for version in questions))


JUDGED: Final[Mapping[str, str]] = {
    "task_completion": _version(extract.VERSION, completion.VERSION),
    "tool_correctness": _version(tools.VERSION),
    "argument_correctness": _version(tools.VERSION),
    "step_efficiency": _version(extract.VERSION, execution.VERSION),
    "confidence": _version(execution.VERSION),
    "plan_adherence": _version(extract.VERSION, execution.VERSION),
    "plan_quality": _version(extract.VERSION, plan.VERSION),
}
"""The built-in evaluators that ask a judge, with the version of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A judged outcome, and the model that gave it; None where none was asked or none answered."""

    outcome: Outcome
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The settings by which traces are judged: models, thresholds, rubrics, constraints.

    `models` and `thresholds` are by evaluator, rubrics among them; `model` does the extraction, and judges where
    `models` names no other. `redactor` makes a redaction for one trace, in which equal values stay recognisable.
    """

    model: str
    models: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, float]
    trace_tokens: int
    rubrics: tuple[RubricConfig, ...] = ()
    constraints: tuple[ConstraintConfig, ...] = ()
    redactor: Callable[[], Redact]

    async def judge(self, trace: Trace, wanted: Collection[str], ask: Ask) -> dict[str, Judged]:
        """Give an outcome for each of `wanted` that has a threshold.

        Raises JudgeUnavailable even if other questions were answered: a cache can give those answers again.
        """
        asked = self.thresholds.keys() & set(wanted)
        precluded = {name: Judged(outcome=reason) for name in asked if (reason := preclude(trace, name))}
        judging = _TraceJudging(self, trace, frozenset(asked - precluded.keys()), ask)
        try:
            # A trace is judged whole or not at all.
            async with ask.room(judging.most):
                return precluded | await judging.outcomes()
        except OverBudget as bound:
            spent = Judged(outcome=Unscored(status=Status.OVER_BUDGET, reason=str(bound)))
            return precluded | dict.fromkeys(judging.asked, spent)


@dataclass(frozen=True)
class _TraceJudging:
    """The questions about one trace, and the outcomes that their answers come to."""

    panel: Panel
    trace: Trace
    asked: frozenset[str]
    ask: Ask

    @cached_property
    def redact(self) -> Redact:
        return self.panel.redactor()

    @cached_property
    def transcript(self) -> list[Json]:
        return transcript(self.trace, self.panel.trace_tokens, self.redact)

    @property
    def most(self) -> int:
        """The largest number of questions that there may be."""
        names = self.asked.intersection(_FROM_EXTRACT)
        groups = self.by_model(name for name in execution.NAMES if name in names | self.sharing)
        rest = names.intersection(("task_completion", "plan_quality"))
        return len(self.at_once) + bool(names) + len(groups) + len(rest)

    async def outcomes(self) -> dict[str, Judged]:
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
            questions.append(safety_question(self.panel.constraints, self.transcript, threshold))
        rubrics = [rubric for rubric in self.panel.rubrics if rubric.name in self.asked]
        return questions + [rubric_question(rubric, self.transcript) for rubric in rubrics]

    @cached_property
    def sharing(self) -> frozenset[str]:
        """The evaluators that are asked with execution after the extraction."""
        groups = self.by_model(execution.NAMES)
        return frozenset(name for group in groups if group.keys() != {execution.CONFIDENCE} for name in group)

    def confidence(self) -> Question:
        return execution.execution(self.transcript, {execution.CONFIDENCE: self.panel.thresholds["confidence"]})

    def tool_questions(self) -> list[Question]:
        groups = self.by_model((tools.TOOL_CORRECTNESS, tools.ARGUMENT_CORRECTNESS))
        if not groups:
            return []
        use = tools.tool_use(self.trace, self.panel.trace_tokens, self.redact)
        return [tools.tools(use, thresholds) for thresholds in groups]

    async def from_extract(self) -> dict[str, Judged]:
        """Find the outcomes that rest on task, outcome and plan."""
        names = self.asked.intersection(_FROM_EXTRACT)
        planned = plan.recorded_plan(self.trace, self.panel.trace_tokens // 4, self.redact)
        needed = {
            extract.TASK: True,
            extract.OUTCOME: "task_completion" in names,
            extract.PLAN: not planned and not names.isdisjoint(_PLANS),
        }
        fields = [name for name, is_needed in needed.items() if is_needed]
        answer = await self.answer(extract.extract(self.transcript, fields), self.panel.model)
        if not isinstance(answer, Answer):
            lost = {name: Judged(outcome=answer) for name in names}
            return lost | (await self.score(self.confidence()) if execution.CONFIDENCE in self.sharing else {})
        facts = answer.replies[0]
        planned = planned or plan.stated(facts.get(extract.PLAN, []))
        outcomes: dict[str, Judged] = {}
        if not planned:
            unplanned = not_applicable("no plan: the judge found none in the trace")
            outcomes = {name: Judged(outcome=unplanned, model=answer.model) for name in names.intersection(_PLANS)}
        questions = self.after_extract(facts, planned, (names | self.sharing) - outcomes.keys())
        return outcomes | await _together(self.score(question) for question in questions)

    def after_extract(self, facts: Mapping[str, Any], planned: list[str], names: frozenset[str]) -> list[Question]:
        task, thresholds = facts[extract.TASK], self.panel.thresholds
        groups = self.by_model(name for name in execution.NAMES if name in names)
        questions = [execution.execution(self.transcript, group, task=task, plan=planned) for group in groups]
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

    async def score(self, question: Question) -> dict[str, Judged]:
        """Ask a question. Returns the outcomes of all its readings."""
        answer = await self.answer(question, self.model_of(question.readings[0].evaluator))
        if not isinstance(answer, Answer):
            return {each.evaluator: Judged(outcome=answer) for each in question.readings}
        return {
            each.evaluator: Judged(outcome=_outcome(each, question, answer), model=answer.model)
            for each in question.readings
        }

    async def answer(self, question: Question, model: str) -> Answer | Failure | Unscored:
        """Ask a question. Returns its answer, or the outcome of all that depends on it."""
        data = cast("dict[str, Json]", self.redact(dict(question.data)))
        try:
            return await self.ask(replace(question, data=data), model=model)
        except NoAnswer as none:
            return Failure(error_type=none.error_type, reason=f"the judge's question {question.name!r}: {none}")
        except OverBudget as bound:
            return Unscored(status=Status.OVER_BUDGET, reason=str(bound))


def _outcome(reading: Reading, question: Question, answer: Answer) -> Outcome:
    score = reading.conclude(answer.replies)
    told: dict[str, Json] = {"prompt_version": question.version, "temperature": answer.temperature}
    if len(answer.replies) > 1:
        votes = [reading.value(reply) for reply in answer.replies]
        told |= {"votes": len(votes), "spread": max(votes) - min(votes)}
    return replace(score, metadata={**score.metadata, **told})


async def _together(parts: Iterable[Coroutine[Any, Any, dict[str, Judged]]]) -> dict[str, Judged]:
    """Find the outcomes of all parts at once. The first that raises ends the others, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return {name: judged for task in tasks for name, judged in task.result().items()}
