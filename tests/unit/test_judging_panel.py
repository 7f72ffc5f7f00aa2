"""Which questions a trace is asked, and what becomes of their answers."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.config.judge import RubricConfig
from agenteval_collector.evaluation.referrals import preclude
from agenteval_collector.judge.panel import JUDGED, Judged
from agenteval_collector.judge.ports import JudgeUnavailable, NoAnswer, OverBudget, Question
from agenteval_collector.model.judge_jobs import Answer

from otel_agenteval.model import Json, Tool, Trace
from otel_agenteval.outcome import Failure, Score, Status, Unscored
from tests.support.judging import BACKGROUND, Script, model_call, panel, tool_call, trace, turn

FROM_EXTRACT = {"task_completion", "step_efficiency", "plan_adherence", "plan_quality"}
EXECUTION = {
    "confidence": {"score": 0.9, "reason": "sure"},
    "step_efficiency": {"score": 0.5, "reason": "e"},
    "plan_adherence": {"score": 1, "reason": "a"},
}
REPLIES: Mapping[str, Any] = {
    "extract": {"task": "T", "outcome": "O"},
    "execution": lambda q: {name: EXECUTION[name] for name in q.schema["properties"]},
    "completion": {"verdict": 0.4, "reason": "c"},
    "plan": {"score": 0.3, "reason": "p"},
    "tools": {
        "tool_correctness": {"score": 0.7, "reason": "t"},
        "verdicts": {"call_1": {"verdict": "yes", "reason": "v"}},
    },
}
WHOLE = trace(
    turn(
        "Find a flight",
        "Found one",
        model_calls=(model_call("Let me search", 1), model_call("Found one", 5)),
        plan=("Let me search",),
        tool_calls=(tool_call(arguments={"q": "OSL"}, result="ok"),),
    ),
    tools=(Tool(name="search", description="Finds"),),
)
ONE_TURN = trace(turn())
REASONED = trace(turn(model_calls=(model_call("Found one", 2),), reasoning=("I should search",)))
POLITE = RubricConfig(name="polite", question="Polite?", scale=(1, 5))


def judged(subject: Trace, script: Any, wanted: Collection[str] = tuple(JUDGED), **changes: Any) -> dict[str, Judged]:
    return asyncio.run(panel(**changes).judge(subject, wanted, script))


def scores(found: Mapping[str, Judged]) -> dict[str, float]:
    return {name: each.outcome.value for name, each in found.items() if isinstance(each.outcome, Score)}


def test_seven_scores_take_five_questions_and_two_transcripts() -> None:
    script = Script(REPLIES)
    found = judged(WHOLE, script)
    assert sorted(script.names) == ["completion", "execution", "extract", "plan", "tools"]
    assert sum("transcript" in question.data for question, _ in script.asked) == 2
    assert scores(found) == {
        "task_completion": 0.4,
        "tool_correctness": 0.7,
        "argument_correctness": 1.0,
        "step_efficiency": 0.5,
        "confidence": 0.9,
        "plan_adherence": 1.0,
        "plan_quality": 0.3,
    }
    assert {each.model for each in found.values()} == {"m"}


def test_what_came_before_is_shown_apart_where_the_trace_is_read() -> None:
    script = Script({**REPLIES, "polite": {"score": 4, "reason": "kind"}})
    subject = replace(WHOLE, earlier=(turn("Hi", "Hello"),))
    judged(subject, script, (*JUDGED, "polite"), rubrics=(POLITE,), thresholds=dict.fromkeys((*JUDGED, "polite"), 0.5))
    before = [{"kind": "user", "text": "Hi"}, {"kind": "answer", "text": "Hello"}]
    shown = {question.name: question.data.get("earlier") for question, _ in script.asked}
    reading = dict.fromkeys(("extract", "execution", "tools", "polite"), before)
    assert shown == {**reading, "completion": None, "plan": None}
    assert all(
        '"earlier"' in question.instructions for question, _ in script.asked if question.name in ("extract", "tools")
    )


def test_every_score_says_what_it_rests_on() -> None:
    metadata = {name: dict(each.outcome.metadata) for name, each in judged(WHOLE, Script(REPLIES)).items()}
    first: dict[str, Json] = {"prompt_version": "2", "temperature": 0.0}
    second: dict[str, Json] = {"prompt_version": "4", "temperature": 0.0}
    assert metadata == {
        "task_completion": {"task": "T", "outcome": "O", **first},
        "tool_correctness": {
            "user_input": "Find a flight",
            "tools_called": [{"name": "search", "parameters": {"q": "OSL"}}],
            "available_tools": [{"name": "search", "description": "Finds"}],
            **second,
        },
        "argument_correctness": {
            "user_input": "Find a flight",
            "verdicts": [{"call": 1, "verdict": "yes", "reason": "v"}],
            **second,
        },
        "step_efficiency": {"task": "T", **second},
        "confidence": second,
        "plan_adherence": {"task": "T", "plan": ["Let me search"], **second},
        "plan_quality": {"task": "T", "plan": ["Let me search"], **first},
    }


@pytest.mark.parametrize(
    ("subject", "wanted", "asked"),
    [
        pytest.param(ONE_TURN, JUDGED, {"completion", "execution", "extract"}, id="no tools, no plan"),
        pytest.param(WHOLE, {"confidence"}, {"execution"}, id="confidence alone needs no extraction"),
        pytest.param(
            WHOLE,
            {"confidence", "task_completion"},
            {"execution", "extract", "completion"},
            id="nor beside what shares no question with it",
        ),
        pytest.param(WHOLE, {"confidence", "plan_adherence"}, {"execution", "extract"}, id="they share a question"),
        pytest.param(WHOLE, {"tool_correctness"}, {"tools"}, id="tools need no extraction"),
        pytest.param(WHOLE, {"step_efficiency"}, {"extract", "execution"}, id="efficiency alone"),
        pytest.param(WHOLE, {"plan_quality"}, {"extract", "plan"}, id="a plan alone"),
        pytest.param(WHOLE, (), set(), id="nothing"),
    ],
)
def test_fewer_questions_where_fewer_are_needed(subject: Trace, wanted: Collection[str], asked: set[str]) -> None:
    replies = {
        **REPLIES,
        "extract": lambda q: dict.fromkeys(q.schema["properties"], "T"),
        "tools": lambda q: {"tool_correctness": {"score": 1, "reason": "t"}},
    }
    script = Script(replies)
    found = judged(subject, script, wanted)
    assert set(script.names) == asked
    assert len(script.names) == len(asked)
    assert set(found) == set(wanted)


def fields(script: Script) -> list[str]:
    return next(list(question.schema["properties"]) for question, _ in script.asked if question.name == "extract")


@pytest.mark.parametrize("steps", [["search", " ", "book"], ["", " "], []])
def test_a_plan_is_asked_for_where_none_was_recorded(steps: list[str]) -> None:
    planned = [step for step in steps if step.strip()]
    script = Script({**REPLIES, "extract": {"task": "T", "outcome": "O", "plan": steps}})
    found = judged(REASONED, script)
    assert scores(found)["confidence"] == 0.9
    assert fields(script) == ["task", "outcome", "plan"]
    for name in ("plan_adherence", "plan_quality"):
        outcome = found[name].outcome
        if planned:
            assert outcome.metadata["plan"] == planned
        else:
            assert isinstance(outcome, Unscored)
            assert (outcome.status, outcome.reason) == (
                Status.NOT_APPLICABLE,
                "no plan: the judge found none in the trace",
            )
    assert ("plan" in script.names) == bool(planned)


def test_a_recorded_plan_is_not_asked_for() -> None:
    script = Script(REPLIES)
    judged(WHOLE, script)
    assert fields(script) == ["task", "outcome"]
    plans = [question.data["plan"] for question, _ in script.asked if "plan" in question.data]
    assert plans == [None, ["Let me search"]]


NO_TURNS = trace()
NO_INPUT = trace(turn(asked=None))
NO_ANSWER = trace(turn(answered=None, tool_calls=(tool_call(arguments={}),), reasoning=("hm",)))


@pytest.mark.parametrize(
    ("subject", "name", "status", "reason"),
    [
        pytest.param(NO_TURNS, "confidence", "not_applicable", "no turn of an agent", id="no turn"),
        pytest.param(trace(turn(None, None)), "confidence", "no_content", "not recorded", id="no content"),
        pytest.param(NO_INPUT, "tool_correctness", "no_content", "the user's input was not", id="no input"),
        pytest.param(
            replace(NO_INPUT, continues_turn=True), "tool_correctness", "not_applicable", "asked in an earlier trace",
            id="no input, as the service keeps the conversation",
        ),
        pytest.param(trace(turn("")), "polite", "not_applicable", "input is empty", id="an empty input"),
        pytest.param(NO_ANSWER, "task_completion", "no_content", "the answer was not recorded", id="no answer"),
        pytest.param(NO_ANSWER, "polite", "no_content", "the answer was not recorded", id="no answer for a rubric"),
        pytest.param(NO_ANSWER, "argument_correctness", None, "", id="calls are judged without an answer"),
        pytest.param(NO_ANSWER, "plan_quality", None, "", id="so are plans"),
        pytest.param(trace(turn(answered="")), "task_completion", None, "", id="an empty answer is one"),
        pytest.param(
            trace(turn(answered=None, error="overloaded")), "task_completion", None, "", id="a failed turn is judged"
        ),
        pytest.param(
            trace(turn("", None, error="overloaded")), "task_completion", None, "", id="so is one with an empty input"
        ),
        pytest.param(
            trace(turn(None, None, error="overloaded")), "task_completion", "no_content", "the user's input was not",
            id="but not one whose input was not recorded",
        ),
        pytest.param(ONE_TURN, "tool_correctness", "not_applicable", "no tools", id="no tools"),
        pytest.param(
            trace(turn(), tools=(Tool(name="search"),)), "tool_correctness", None, "", id="tools that nobody called"
        ),
        pytest.param(
            trace(turn(), tools=(Tool(name="search"),)), "argument_correctness", "not_applicable", "no tool calls",
            id="no calls",
        ),
        pytest.param(
            trace(turn(tool_calls=(tool_call(),))), "argument_correctness", "no_content",
            "what the tools were called with",
            id="no arguments recorded",
        ),
        pytest.param(ONE_TURN, "plan_quality", "not_applicable", "no plan", id="nothing that could be a plan"),
        pytest.param(trace(turn(plan=(" ", ""))), "plan_quality", "not_applicable", "no plan", id="blank plans"),
        pytest.param(trace(turn(reasoning=("so",))), "plan_adherence", None, "", id="reasoning may tell a plan"),
        pytest.param(
            trace(turn(model_calls=(model_call("first this", 1), model_call("Found one", 2)))), "plan_adherence", None,
            "", id="a reply on the way may",
        ),
        pytest.param(ONE_TURN, "confidence", None, "", id="a plain exchange"),
        pytest.param(
            replace(NO_ANSWER, turn_goes_on=True), "argument_correctness", "not_applicable", "goes on in another trace",
            id="a turn is judged where it ends",
        ),
    ],
)  # fmt: skip
def test_what_is_known_without_asking(subject: Trace, name: str, status: str | None, reason: str) -> None:
    found = preclude(subject, name)
    assert (found.status if found else None) == status
    assert reason in (found.reason if found else "")


def test_what_is_known_without_asking_is_not_asked() -> None:
    script = Script({})
    found = judged(trace(turn(None, None)), script)
    assert script.names == []
    assert {each.outcome.status for each in found.values()} == {Status.NO_CONTENT}
    assert {each.model for each in found.values()} == {None}


@pytest.mark.parametrize(
    ("question", "lost"),
    [
        ("extract", FROM_EXTRACT),
        ("tools", {"tool_correctness", "argument_correctness"}),
        ("execution", {"confidence", "step_efficiency", "plan_adherence"}),
        ("completion", {"task_completion"}),
        ("plan", {"plan_quality"}),
    ],
)
def test_a_question_without_an_answer_costs_those_who_need_it_and_no_other(question: str, lost: set[str]) -> None:
    found = judged(WHOLE, Script({**REPLIES, question: NoAnswer("malformed", "no score")}))
    assert set(scores(found)) == JUDGED.keys() - lost
    failure = Failure(error_type="malformed", reason=f"the judge's question {question!r}: no score")
    assert [found[name] for name in lost] == [Judged(outcome=failure)] * len(lost)


@pytest.mark.parametrize(
    ("subject", "wanted", "changes", "extract"),
    [
        pytest.param(
            WHOLE, JUDGED, {"models": {"confidence": "big"}}, {"task": "T", "outcome": "O"}, id="by its model"
        ),
        pytest.param(WHOLE, JUDGED, {}, NoAnswer("malformed", "no task"), id="where the extraction failed"),
        pytest.param(WHOLE, JUDGED, {}, OverBudget("10 requests an hour"), id="where it was over budget"),
        pytest.param(REASONED, {"confidence", "plan_adherence"}, {}, {"task": "T", "plan": []}, id="without a plan"),
    ],
)
def test_confidence_alone_is_asked_with_the_transcript_and_nothing_else(
    subject: Trace, wanted: Collection[str], changes: Mapping[str, Any], extract: Any
) -> None:
    script = Script({**REPLIES, "extract": extract})
    found = judged(subject, script, wanted, **changes)
    [asked] = [question for question, _ in script.asked if list(question.schema["properties"]) == ["confidence"]]
    assert set(asked.data) - BACKGROUND == {"transcript"}
    assert scores(found)["confidence"] == 0.9


def test_over_budget_is_no_failure() -> None:
    found = judged(WHOLE, Script({**REPLIES, "completion": OverBudget("10 requests an hour, free at 11:00")}))
    expected = Unscored(status=Status.OVER_BUDGET, reason="10 requests an hour, free at 11:00")
    assert found["task_completion"].outcome == expected
    assert len(scores(found)) == 6


def test_a_trace_without_room_for_all_its_questions_is_asked_none() -> None:
    script = Script(REPLIES)
    script.no_room = OverBudget("30 requests an hour, free at 11:00")
    found = judged(WHOLE, script)
    expected = Unscored(status=Status.OVER_BUDGET, reason="30 requests an hour, free at 11:00")
    assert {name: each.outcome for name, each in found.items()} == dict.fromkeys(JUDGED, expected)
    assert (script.asked, script.kept) == ([], [5])


@pytest.mark.parametrize("subject", [WHOLE, ONE_TURN, REASONED, trace(turn(plan=("a plan",)))])
@pytest.mark.parametrize("wanted", [JUDGED, {"confidence"}, {"tool_correctness"}, {"plan_quality", "confidence"}])
@pytest.mark.parametrize("models", [{}, {"confidence": "x", "argument_correctness": "big", "task_completion": "big"}])
def test_no_trace_asks_more_questions_than_room_is_kept_for(
    subject: Trace, wanted: Collection[str], models: dict[str, str]
) -> None:
    replies = {
        "extract": lambda q: {name: ["a"] if name == "plan" else "T" for name in q.schema["properties"]},
        "tools": lambda q: {name: REPLIES["tools"][name] for name in q.schema["properties"]},
    }
    script = Script({**REPLIES, **replies})
    judged(subject, script, wanted, models=models)
    assert script.kept == [len(script.asked)]


@pytest.mark.parametrize("question", list(REPLIES))
def test_an_outage_is_raised_as_it_is(question: str) -> None:
    outage = JudgeUnavailable("timeout", "away", retry_after=1.0)
    with pytest.raises(JudgeUnavailable) as raised:
        judged(WHOLE, Script({**REPLIES, question: outage}))
    assert raised.value is outage


class Waiting:
    """An `Ask` of which one question raises once `others` are under way, which never end, and the rest are answered."""

    def __init__(self, raising: str, error: Exception, others: Collection[str]) -> None:
        self.raising, self.error, self.others = raising, error, frozenset(others)
        self.script = Script(REPLIES)
        self.all_asked = asyncio.Event()
        self.cancelled: set[str] = set()
        self.under_way: set[str] = set()

    def room(self, questions: int) -> AbstractAsyncContextManager[object]:
        return self.script.room(questions)

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        if question.name not in {self.raising, *self.others}:
            return await self.script(question, model=model, vote=vote)
        self.under_way.add(question.name)
        if self.under_way == {self.raising, *self.others}:
            self.all_asked.set()
        if question.name == self.raising:
            await self.all_asked.wait()
            raise self.error
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.add(question.name)
            raise
        raise AssertionError("nothing ends the wait")


@pytest.mark.parametrize(
    ("raising", "others"),
    [
        pytest.param("tools", {"extract"}, id="before the extraction"),
        pytest.param("plan", {"execution", "completion"}, id="after it"),
        pytest.param("execution", {"completion", "plan", "tools"}, id="also with those that do not need it"),
    ],
)
def test_independent_questions_are_under_way_at_once_and_end_with_an_outage(raising: str, others: set[str]) -> None:
    waiting = Waiting(raising, JudgeUnavailable("timeout", "away", retry_after=1.0), others)
    with pytest.raises(JudgeUnavailable):
        judged(WHOLE, waiting)
    assert waiting.cancelled == others


def test_evaluators_with_the_same_model_share_a_question_and_others_do_not() -> None:
    replies = {
        **REPLIES,
        "tools": lambda q: {
            name: {"score": 1, "reason": "t"}
            if name == "tool_correctness"
            else {"call_1": {"verdict": "no", "reason": "v"}}
            for name in q.schema["properties"]
        },
    }
    models = {"argument_correctness": "big", "task_completion": "big", "step_efficiency": "x", "plan_adherence": "x"}
    script = Script(replies)
    found = judged(WHOLE, script, models=models)
    assert sorted((question.name, model) for question, model in script.asked) == [
        ("completion", "big"),
        ("execution", "m"),
        ("execution", "x"),
        ("extract", "m"),
        ("plan", "m"),
        ("tools", "big"),
        ("tools", "m"),
    ]
    assert {name: each.model for name, each in found.items()} == {name: models.get(name, "m") for name in JUDGED}


def test_a_question_tells_the_scores_of_its_replies() -> None:
    script, replies = Script(REPLIES), {**REPLIES, "execution": EXECUTION}
    judged(WHOLE, script)
    told = {q.name: {name: each.value(replies[q.name]) for name, each in q.readings.items()} for q, _ in script.asked}
    assert told["execution"] == {"confidence": 0.9, "step_efficiency": 0.5, "plan_adherence": 1.0}
    assert told["tools"] == {"tool_correctness": 0.7, "argument_correctness": 1.0}
    assert told["extract"] == {}


def test_a_rubric_is_asked_beside_the_others_by_its_own_model() -> None:
    script = Script({**REPLIES, "polite": {"score": 4, "reason": "kind"}})
    found = judged(
        WHOLE, script, {"polite"}, rubrics=(POLITE,), thresholds={"polite": 0.5}, models={"polite": "strict"}
    )
    assert [(question.name, model) for question, model in script.asked] == [("polite", "strict")]
    assert scores(found) == {"polite": 0.75}


def test_what_was_switched_off_while_it_waited_has_no_outcome_and_harms_no_other() -> None:
    script = Script(REPLIES)
    left = {name: 0.5 for name in JUDGED if name != "plan_adherence"}
    assert set(judged(WHOLE, script, (*JUDGED, "a_rubric_of_old"), thresholds=left)) == set(left)


def test_nothing_is_asked_unredacted_and_each_trace_has_a_redaction_of_its_own() -> None:
    made = []

    def redactor() -> Any:
        def redact(value: Json) -> Json:
            if isinstance(value, str):
                return value.replace("secret", "[SECRET_1]")
            if isinstance(value, list):
                return [redact(item) for item in value]
            return {key: redact(item) for key, item in value.items()} if isinstance(value, dict) else value

        made.append(redact)
        return redact

    subject = trace(
        turn(
            "my secret",
            "your secret",
            plan=("use secret",),
            tool_calls=(tool_call("secret", arguments={"key": "secret"}, result="secret"),),
        ),
        tools=(Tool(name="search", description="secret"),),
    )
    script = Script({**REPLIES, "extract": {"task": "secret", "outcome": "secret"}})
    found = judged(subject, script, redactor=redactor)
    assert len(script.asked) == 5
    assert all("secret" not in str(question.data) for question, _ in script.asked)
    assert "secret" not in str(found["tool_correctness"].outcome)
    assert len(made) == 1
