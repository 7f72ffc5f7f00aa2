"""What is asked: pinned texts and schemas, what endpoints take, and what replies come to."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from agenteval_collector.config.evaluators import DEFAULT_CONSTRAINTS
from agenteval_collector.config.judge import RubricConfig
from agenteval_collector.judge.panel import JUDGED
from agenteval_collector.judge.ports import JudgeRequest, Malformed, Question
from agenteval_collector.judge.prompt import transcript
from agenteval_collector.judge.prompt.envelope import enclose
from agenteval_collector.judge.prompt.replies import decode, object_schema, strict
from agenteval_collector.judge.questions import execution, extract, tools
from agenteval_collector.judge.questions.safety import safety_question
from agenteval_collector.judge.questions.scores import (
    COMPLETION_VERSION,
    PLAN_VERSION,
    completion,
    goal_question,
    plan_quality,
    rubric_question,
    rubric_version,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.model import Json, Tool, Trace
from tests.support.judging import golden, model_call, question, tool_call, trace, turn, unredacted

SEARCHED = trace(turn(tool_calls=(tool_call(arguments={"q": "x"}, result="ok"), tool_call(at=4, error="boom"))))
NOTHING_TOLD: Mapping[str, Json] = {"transcript": []}
CHOSEN = {"score": 1, "reason": "r"}
UNDECIDED = {"verdict": "idk", "reason": "r"}
RUBRIC = RubricConfig(name="politeness", question="How polite was the agent?", scale=(1, 5))


def use(subject: Trace = SEARCHED, budget: int = 8_000) -> tools.ShownTools:
    return tools.tool_use(subject, budget, unredacted)


QUESTIONS: Mapping[str, Question] = {
    "extract": extract.extract(NOTHING_TOLD, {extract.TASK, extract.OUTCOME, extract.PLAN}),
    "extract_task": extract.extract(NOTHING_TOLD, {extract.TASK}),
    "completion": completion("T", "O"),
    "plan": plan_quality("T", ["a"]),
    "execution": execution.execution(NOTHING_TOLD, execution.NAMES, task="T", plan=["a"]),
    "execution_without_plan": execution.execution(NOTHING_TOLD, {execution.STEP_EFFICIENCY}, task="T"),
    "confidence": execution.execution(NOTHING_TOLD, {execution.CONFIDENCE}),
    "tools": tools.tools(use(), tools.NAMES),
    "tools_without_calls": tools.tools(use(trace(turn())), {tools.TOOL_CORRECTNESS}),
    "goal": goal_question(NOTHING_TOLD, trace(turn(), turn(), turn())),
    "rubric": rubric_question(RUBRIC, NOTHING_TOLD),
}


def enclosed(asked: Question) -> JudgeRequest:
    return enclose(asked, model="m", temperature=0.0, nonce="0" * 16, mark="c" * 16)


def fingerprint(*parts: Json) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def test_no_prompt_changes_without_its_version() -> None:
    """A changed line needs a raised VERSION in the question's module (FORM_VERSION for a rubric; all of them for the
    envelope), and then this file written again with WRITE_GOLDEN=1."""
    prompts: dict[str, Json] = {
        f"{name} {each.version}": fingerprint(each.instructions, strict(each.schema))
        for name, each in QUESTIONS.items()
    }
    envelope = enclosed(question(object_schema(), {}))
    prompts["envelope"] = fingerprint([message.text for message in envelope.messages], dict(envelope.schema))
    assert prompts == golden("prompts.json", prompts)


def test_the_version_of_an_evaluator_rises_with_each_of_its_questions() -> None:
    rests_on = {
        "task_completion": [extract.VERSION, COMPLETION_VERSION],
        "tool_correctness": [tools.VERSION],
        "argument_correctness": [tools.VERSION],
        "step_efficiency": [extract.VERSION, execution.VERSION],
        "confidence": [execution.VERSION],
        "plan_adherence": [extract.VERSION, execution.VERSION],
        "plan_quality": [extract.VERSION, PLAN_VERSION],
    }
    assert list(JUDGED) == list(rests_on)
    for name, versions in rests_on.items():
        assert int(JUDGED[name]) == 1 + sum(int(version) - 1 for version in versions)


def objects(schema: Any) -> list[Any]:
    if schema["type"] == "object":
        return [schema, *(found for inner in schema["properties"].values() for found in objects(inner))]
    return objects(schema["items"]) if schema["type"] == "array" else []


@pytest.mark.parametrize("name", QUESTIONS)
def test_schemas_are_what_strict_endpoints_take(name: str) -> None:
    schema = enclosed(QUESTIONS[name]).schema
    found = objects(schema)
    assert all(each["required"] == list(each["properties"]) for each in found)
    assert all(each["additionalProperties"] is False for each in found)
    assert all(set(each) == {"type", "properties", "required", "additionalProperties"} for each in found)
    leaves = [inner for each in found for inner in each["properties"].values() if inner["type"] != "object"]
    assert all(set(leaf) <= {"type", "description", "enum", "items"} for leaf in leaves)
    assert {leaf["type"] for leaf in leaves} <= {"string", "number", "integer", "array"}


def filled(schema: Any, number: float) -> Any:
    """A reply that follows `schema`, as a judge gives it that knows nothing else."""
    match schema["type"]:
        case "object":
            return {key: filled(inner, number) for key, inner in schema["properties"].items()}
        case "array":
            return [filled(schema["items"], number)]
        case "number":
            return number
        case "integer":
            return 1
        case _:
            return schema.get("enum", ["words"])[0]


def answered(asked: Question, number: float, change: Callable[[Any], None] = lambda reply: None) -> Any:
    envelope = enclosed(asked)
    reply = filled(envelope.schema, number)
    change(reply)
    return decode(json.dumps(reply), asked, "c" * 16)


SCORING = [name for name in QUESTIONS if not name.startswith("extract")]


@pytest.mark.parametrize("name", QUESTIONS)
def test_whoever_fills_in_the_schema_answers(name: str) -> None:
    assert answered(QUESTIONS[name], 1.0)


@pytest.mark.parametrize("number", [-0.1, 1.1, 5.5, 100, -1])
@pytest.mark.parametrize("name", SCORING)
def test_a_number_out_of_range_is_malformed_wherever_it_stands(name: str, number: float) -> None:
    if name == "rubric":
        number += 5 if number > 0 else 0
    with pytest.raises(Malformed, match=r"reply\.[\w.]+: .* is (less|greater) than the (minimum|maximum) of \d"):
        answered(QUESTIONS[name], number)


def test_only_what_is_needed_is_extracted() -> None:
    asked = extract.extract(NOTHING_TOLD, {extract.TASK})
    assert list(asked.schema["properties"]) == ["task"]
    assert "outcome:" not in asked.instructions
    assert "plan:" not in asked.instructions
    assert not asked.readings


def test_adherence_is_not_asked_about_without_a_plan() -> None:
    asked = QUESTIONS["execution_without_plan"]
    assert set(asked.data) == {"task", "transcript"}
    assert "plan_adherence" not in asked.instructions


def test_confidence_comes_first_and_is_the_same_question_wherever_it_is_asked_alone() -> None:
    assert list(QUESTIONS["execution"].schema["properties"]) == ["confidence", "step_efficiency", "plan_adherence"]
    late = execution.execution(NOTHING_TOLD, {execution.CONFIDENCE}, task="T", plan=["a"])
    assert late.data == QUESTIONS["confidence"].data == {"transcript": []}


@pytest.mark.parametrize(
    ("plans", "shown"),
    [
        pytest.param(("search", "book"), None, id="whole"),
        pytest.param(("search",), ["search", "book"], id="in part"),
        pytest.param((), ["search", "book"], id="not at all"),
    ],
)
def test_a_plan_is_not_repeated_where_it_stands_in_the_transcript(plans: tuple[str, ...], shown: Json) -> None:
    recorded = transcript.transcript(trace(turn("search", "book", plan=plans)), 1_000, unredacted)
    scoring = execution.execution({"transcript": recorded}, execution.NAMES, task="T", plan=["search", "book"])
    assert scoring.data["plan"] == shown
    reply = {name: {"score": 1, "reason": "r"} for name in execution.NAMES}
    assert concluded(scoring, "plan_adherence", reply).metadata == {"task": "T", "plan": ["search", "book"]}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(lambda v: v.pop("call_2"), "reply.verdicts: 'call_2' is a required property", id="too few"),
        pytest.param(lambda v: v.update(call_3=v["call_1"]), "('call_3' was unexpected)", id="too many"),
        pytest.param(
            lambda v: v.update(call_1=UNDECIDED),
            "'idk' is not one of ['yes', 'no']",
            id="undecided",
        ),
        pytest.param(
            lambda v: v.update(call_1="yes"), "reply.verdicts.call_1: 'yes' is not of type 'object'", id="bare"
        ),
    ],
)
def test_there_is_one_answer_for_each_call(change: Callable[[Any], None], named: str) -> None:
    with pytest.raises(Malformed) as error:
        answered(QUESTIONS["tools"], 1.0, lambda reply: change(reply["verdicts"]))
    assert named in str(error.value)


def concluded(scoring: Question, evaluator: str, *replies: Mapping[str, Any]) -> Any:
    decoded = [decode(json.dumps({"canary": "c", **reply}), scoring, "c") for reply in replies]
    reading = scoring.readings[evaluator]
    return reading.conclude(decoded)


def verdicts(*given: str) -> dict[str, Any]:
    told = {f"call_{n}": {"verdict": each, "reason": f"r{n}"} for n, each in enumerate(given, 1)}
    return {"tool_correctness": CHOSEN, "verdicts": told}


def test_one_call_is_not_told_of_as_many() -> None:
    once = trace(turn(tool_calls=(tool_call(arguments={"q": "x"}, result="ok"),)))
    score = concluded(tools.tools(use(once), tools.NAMES), "argument_correctness", verdicts("yes"))
    assert score.reason == "the judged call has the right arguments"


@pytest.mark.parametrize(
    ("votes", "value", "reason"),
    [
        pytest.param([("yes", "yes")], 1.0, "all 2 judged calls have the right arguments", id="all right"),
        pytest.param([("yes", "no")], 0.5, "1 of 2 judged calls have wrong arguments: call 2: r2", id="one wrong"),
        pytest.param([("yes", "no"), ("yes", "yes"), ("no", "yes")], 1.0, "all 2", id="the majority of each call"),
        pytest.param([("yes", "no"), ("no", "no")], 0.0, "2 of 2", id="an even vote is no yes"),
    ],
)
def test_arguments_score_by_the_share_of_right_calls(votes: list[Any], value: float, reason: str) -> None:
    score = concluded(tools.tools(use(), tools.NAMES), "argument_correctness", *(verdicts(*vote) for vote in votes))
    assert score.value == value
    assert score.reason.startswith(reason)
    assert [verdict["call"] for verdict in score.metadata["verdicts"]] == [1, 2]
    assert score.coverage is None


def test_what_is_not_shown_is_not_judged_and_lowers_the_coverage() -> None:
    many = use(trace(turn(tool_calls=tuple(tool_call(at=at, arguments={}) for at in range(40)))))
    numbers = [each["call"] for each in many.calls]
    assert numbers == [*range(1, 16), *range(26, 41)]
    scoring = tools.tools(many, tools.NAMES)
    told = {f"call_{n}": {"verdict": "yes", "reason": "r"} for n in numbers}
    score = concluded(scoring, "argument_correctness", {"tool_correctness": CHOSEN, "verdicts": told})
    assert (score.value, score.coverage) == (1.0, 30 / 40)
    assert "the other 10 were too many to be shown" in score.reason


@settings(deadline=None)
@given(st.integers(1, 60), st.sampled_from((500, 1_000)), st.text(max_size=3), st.integers(0, 900))
def test_a_call_is_shown_however_tight_the_budget(count: int, budget: int, piece: str, times: int) -> None:
    long = piece * times
    calls = tuple(tool_call(long, at=at, arguments=long, result=long, error=long) for at in range(count))
    said = (model_call(long or None, 0),)
    assert use(trace(turn(long, tool_calls=calls, model_calls=said, plan=(long,))), budget).calls


def test_the_reasoning_before_a_call_stands_with_it() -> None:
    subject = trace(
        turn(
            model_calls=(model_call("Let me see", 1), model_call(None, 3), model_call("Found one", 6)),
            reasoning=("First", "Second"),
            plan=("Let me see",),
            tool_calls=(tool_call("a", 2), tool_call("b", 4), tool_call("c", 5)),
        )
    )
    assert [call.get("reasoning") for call in use(subject).data["calls"]] == ["First", "Second", None]


@pytest.mark.parametrize(
    ("offered", "shown"),
    [
        pytest.param((Tool(name="search"),), None, id="only the called ones, by name: unknown"),
        pytest.param((), None, id="none"),
        pytest.param(
            (Tool(name="search"), Tool(name="book")),
            [{"name": "search"}, {"name": "book"}],
            id="one that was not called",
        ),
        pytest.param(
            (Tool(name="search", description="Finds"),), [{"name": "search", "description": "Finds"}], id="described"
        ),
    ],
)
def test_that_no_tools_were_recorded_is_not_taken_for_the_list_of_them(offered: tuple[Tool, ...], shown: Json) -> None:
    subject = trace(turn(tool_calls=(tool_call(),)), tools=offered)
    assert use(subject).data["available_tools"] == shown


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_votes_come_to_their_median_with_a_reason_of_theirs(votes: list[float]) -> None:
    scoring = execution.execution(NOTHING_TOLD, {execution.CONFIDENCE})
    replies = [{"confidence": {"score": vote, "reason": str(vote)}} for vote in votes]
    score = concluded(scoring, "confidence", *replies)
    ordered = sorted(votes)
    middle = len(votes) // 2
    assert score.value == (ordered[middle] if len(votes) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)
    assert abs(float(score.reason) - score.value) == min(abs(vote - score.value) for vote in votes)


def replied(schema: Any) -> Any:
    """A reply of that shape."""
    match schema:
        case {"properties": properties}:
            return {name: replied(each) for name, each in properties.items()}
        case {"items": items}:
            return [replied(items)]
        case {"enum": [first, *_]}:
            return first
        case {"type": "number" | "integer"}:
            return 1
    return "text"


def lacking(reply: Any, place: str = "reply") -> Iterator[tuple[str, Any]]:
    """The reply without one of its properties, for each, with the place of that one."""
    for name, each in reply.items() if isinstance(reply, dict) else ():
        yield f"{place}.{name}", {key: value for key, value in reply.items() if key != name}
        for inner, left in lacking(each, f"{place}.{name}"):
            yield inner, {**reply, name: left}


ASKED = {**QUESTIONS, "safety": safety_question(DEFAULT_CONSTRAINTS, NOTHING_TOLD)}
LACKING = [
    pytest.param(asked, reply, place, id=f"{name} {place}")
    for name, asked in ASKED.items()
    for place, reply in lacking(replied(asked.schema))
]


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_whole_reply_is_taken(asked: Question) -> None:
    reply = replied(asked.schema)
    assert decode(json.dumps({"canary": "c", **reply}), asked, "c") == reply


@pytest.mark.parametrize(("asked", "reply", "place"), LACKING)
def test_a_reply_without_one_of_its_properties_is_malformed(asked: Question, reply: Any, place: str) -> None:
    within, _, name = place.rpartition(".")
    with pytest.raises(Malformed, match=f"^{re.escape(within)}: '{name}' is a required property$"):
        decode(json.dumps({"canary": "c", **reply}), asked, "c")


@pytest.mark.parametrize(
    ("scale", "given_", "value"),
    [((1, 5), 1, 0.0), ((1, 5), 5, 1.0), ((1, 5), 2, 0.25), ((10, 0), 10, 0.0), ((10, 0), 0, 1.0), ((-1, 1), 0, 0.5)],
)
def test_a_rubrics_scale_is_mapped_to_the_unit_interval(
    scale: tuple[float, float], given_: float, value: float
) -> None:
    rubric = RUBRIC.model_copy(update={"scale": scale})
    assert (
        concluded(rubric_question(rubric, NOTHING_TOLD), "politeness", {"score": given_, "reason": "r"}).value == value
    )


def test_another_question_is_another_version_of_the_rubric() -> None:
    changed = [RUBRIC.model_copy(update=update) for update in ({"question": "Else?"}, {"scale": (0, 5)})]
    assert len({rubric_version(each) for each in (RUBRIC, *changed)}) == 3
    assert rubric_version(RUBRIC) == rubric_version(RUBRIC.model_copy(update={"threshold": 0.9, "model": "other"}))


def test_every_question_with_a_transcript_says_how_to_read_it() -> None:
    for asked in QUESTIONS.values():
        assert ("transcript" in asked.data) == (transcript.GUIDE in asked.instructions)


@pytest.mark.parametrize("turn", [-1, 4, 1.5, "2", True, None])
def test_a_turn_that_the_session_does_not_have_is_malformed(turn: object) -> None:
    with pytest.raises(Malformed, match=r"reply\.failed_turn: "):
        answered(QUESTIONS["goal"], 0.5, lambda reply: reply.update(failed_turn=turn))
