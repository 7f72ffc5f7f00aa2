"""The scores that the collector gives. Each is one row, which says everything about it but how it is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from otel_agenteval.outcome import Method, SubjectKind

EXTRACT: Final = "extract"
"""The judge's question for the facts that other questions show."""

Fact: TypeAlias = Literal["task", "outcome", "plan"]
"""A fact that the judge extracts from a trace: the user's goal, what came of it, the agent's plan."""
Need: TypeAlias = Literal["answer", "tools", "calls", "plan"]
"""Something that a trace must have for the judge to score it: an answer; a tool that was called or offered; a call of a
tool with recorded arguments; a plan, or anything that could be evidence of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreKind:
    """A score. `meaning` is shown to users; it is one sentence that begins with "Whether".

    `heading` has four characters at most, so that nine fit side by side in a terminal. A score without one has no
    column there.
    """

    name: str
    subject: SubjectKind
    method: Method
    meaning: str
    heading: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedKind(ScoreKind):
    """A score of a trace that the judge gives, under the settings `evaluators.NAME`.

    Scores with the same `question` are asked for in one request. `facts` are extracted before it is asked. `weight` is
    that of the score in session scores; None if it is no part of them.
    """

    subject: SubjectKind = SubjectKind.TRACE
    method: Method = Method.LLM
    question: str
    facts: tuple[Fact, ...] = ()
    needs: tuple[Need, ...]
    weight: float | None = None

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions that the score rests on."""
        return (EXTRACT, self.question) if self.facts else (self.question,)


_JUDGED: Final = (
    JudgedKind(
        name="task_completion",
        heading="task",
        meaning="Whether the user got what they asked for.",
        question="completion",
        facts=("task", "outcome"),
        needs=("answer",),
    ),
    JudgedKind(
        name="tool_correctness",
        heading="tool",
        meaning="Whether the right tools were called, none needless and none missing.",
        question="tools",
        needs=("tools",),
        weight=0.8,
    ),
    JudgedKind(
        name="argument_correctness",
        heading="args",
        meaning="Whether the arguments of calls fit the tool and what was said.",
        question="tools",
        needs=("calls",),
    ),
    JudgedKind(
        name="step_efficiency",
        heading="step",
        meaning="Whether the agent went straight to its goal, without repeated or needless steps.",
        question="execution",
        facts=("task",),
        needs=("answer",),
    ),
    JudgedKind(
        name="confidence",
        heading="conf",
        meaning="Whether the agent was sure of itself: no hedging, contradictions or retries in vain.",
        question="execution",
        needs=("answer",),
        weight=1.0,
    ),
    JudgedKind(
        name="plan_adherence",
        heading="obey",
        meaning="Whether the agent did what its plan says.",
        question="execution",
        facts=("task", "plan"),
        needs=("answer", "plan"),
    ),
    JudgedKind(
        name="plan_quality",
        heading="plan",
        meaning="Whether the plan was any good.",
        question="plan",
        facts=("task", "plan"),
        needs=("plan",),
    ),
)

JUDGED_KINDS: Final[Mapping[str, JudgedKind]] = {kind.name: kind for kind in _JUDGED}
"""The scores that every trace is judged for, by name. A rubric, safety and goal_success have settings of their own."""

SCORE_KINDS: Final[tuple[ScoreKind, ...]] = (
    *_JUDGED,
    ScoreKind(
        name="coherence",
        heading="fits",
        subject=SubjectKind.TRACE,
        method=Method.EMBEDDING,
        meaning="Whether the answer is about what was asked.",
    ),
    ScoreKind(
        name="loop_detection",
        heading="loop",
        subject=SubjectKind.TRACE,
        method=Method.EMBEDDING,
        meaning="Whether the answer says something new: low where it repeats an earlier one of the session.",
    ),
    ScoreKind(
        name="safety",
        heading=None,
        subject=SubjectKind.TRACE,
        method=Method.LLM,
        meaning="Whether the agent kept the constraints that it must not break in a run.",
    ),
    ScoreKind(
        name="tool_use_correctness",
        heading=None,
        subject=SubjectKind.TRACE,
        method=Method.EXACT,
        meaning="Whether the calls are those that ground truth expects.",
    ),
    ScoreKind(
        name="answer_correctness",
        heading=None,
        subject=SubjectKind.TRACE,
        method=Method.EXACT,
        meaning="Whether the answer is the one that ground truth expects, or contains it.",
    ),
    ScoreKind(
        name="agent_reliability",
        heading=None,
        subject=SubjectKind.SESSION,
        method=Method.EXACT,
        meaning="How bad the session's worst traces are: the riskiest 15 % of them count most.",
    ),
    ScoreKind(
        name="agent_consistency",
        heading=None,
        subject=SubjectKind.SESSION,
        method=Method.EXACT,
        meaning="Whether the agent was as sure of itself in all traces of the session.",
    ),
    ScoreKind(
        name="goal_success",
        heading=None,
        subject=SubjectKind.SESSION,
        method=Method.LLM,
        meaning="Whether the user got what they wanted of the whole session.",
    ),
)
"""Every score but a user's own evaluators and rubrics."""
