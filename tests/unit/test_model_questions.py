"""What a model call was asked: as the full reader has it, in whatever form it is recorded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.conventions.dialect import SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, SYSTEM, ChatMessage
from otel_agenteval.conventions.model_questions import MAX_EXCERPT, excerpt, question_of, sent_of
from otel_agenteval.conventions.span_reader import read_span
from otel_agenteval.model import ModelQuestion
from tests.support.agent_runs import messages
from tests.support.recordings import name_of, recorded_spans, recordings

RECORDINGS = recordings("corpus", "recorded")
# What smolagents calls what its model has asked for.
OWN = (ASSISTANT, "tool-call")
ASKED = [("system", "Be brief."), ("user", "And now?")]
GOES_ON = [("user", "First."), ("assistant", "Yes."), ("user", "And now?")]


def said(message: ChatMessage) -> list[str]:
    """What a message says, as words that stand in any of its forms."""
    results = [each.result if isinstance(each.result, str) else "" for each in message.responses]
    return [word for text in (*message.texts, *results) for word in text.split()[:5] if word.isalnum()]


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_the_question_is_that_of_the_full_reader(path: Any) -> None:
    for spans in recorded_spans(path).values():
        for span in spans:
            facts, _ = read_span(span)
            question = question_of(span.attributes)
            if facts is None or facts.role is not SpanRole.MODEL or facts.input is None or question is None:
                continue
            others = [each for each in facts.input.messages if each.role != SYSTEM]
            newest = next(each for each in reversed(others) if each.role not in OWN)
            assert all(word in question.newest for word in said(newest))
            if any(each.role in OWN for each in others):
                assert question.opening is not None
                assert all(word in question.opening for word in said(others[0]))
            else:
                assert question.opening is None


def test_most_recordings_tell_the_question() -> None:
    asked = [
        any(question_of(span.attributes) for spans in recorded_spans(path).values() for span in spans)
        for path in RECORDINGS
    ]
    assert sum(asked) >= 0.7 * len(asked)


def indexed(said: list[tuple[str, str]], prefix: str, infix: str) -> dict[str, str]:
    fields = enumerate(said)
    return {f"{prefix}{at}{infix}{key}": text for at, (r, t) in fields for key, text in (("role", r), ("content", t))}


def contents(said: list[tuple[str, str]]) -> str:
    """The form of Gemini's API, in which the role comes last."""
    return json.dumps({"model": "m", "contents": [{"parts": [{"text": text}], "role": role} for role, text in said]})


def body(said: list[tuple[str, str]]) -> str:
    """The form of a chat API, in which other fields stand behind the messages."""
    sent = [{"role": role, "content": text} for role, text in said]
    return json.dumps({"messages": sent, "tools": [{"name": "role", "parameters": {"role": {"type": "string"}}}]})


FORMS = [
    pytest.param(lambda said: {"gen_ai.input.messages": messages(said)}, id="the conventions"),
    pytest.param(lambda said: {"gen_ai.input.messages": messages(said).replace(" ", "")}, id="without white space"),
    pytest.param(lambda said: {"gcp.vertex.agent.llm_request": contents(said)}, id="the role last"),
    pytest.param(lambda said: {"mlflow.spanInputs": body(said)}, id="the body of a request"),
    pytest.param(lambda said: indexed(said, "llm.input_messages.", ".message."), id="OpenInference"),
    pytest.param(lambda said: indexed(said, "gen_ai.prompt.", "."), id="OpenLLMetry"),
]


@pytest.mark.parametrize("form", FORMS)
def test_own_words_change_no_question(form: Any) -> None:
    first = question_of(form(ASKED))
    again = question_of(form([*ASKED, ("assistant", "I will see."), ("assistant", "I will see.")]))
    assert first is not None
    assert again is not None
    assert first.newest == again.newest
    assert (first.opening, again.opening) == (None, first.newest)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_new_is_another_question(form: Any) -> None:
    asked, goes_on = question_of(form(ASKED)), question_of(form(GOES_ON))
    other = question_of(form([("user", "And then?")]))
    assert asked is not None
    assert goes_on is not None
    assert other is not None
    assert goes_on.newest == asked.newest != other.newest
    assert goes_on.opening not in (None, asked.newest)


@pytest.mark.parametrize("form", FORMS)
def test_the_users_words_are_told_from_what_a_tool_gave(form: Any) -> None:
    said, given = question_of(form(GOES_ON)), question_of(form([*GOES_ON, ("tool", "3 hits")]))
    assert said is not None
    assert given is not None
    assert (said.is_users, given.is_users) == (True, False)


@pytest.mark.parametrize(
    ("part", "is_users"),
    [
        ({"type": "text", "content": 'What is a "tool_result"?'}, True),
        ({"type": "tool_call_response", "id": "c1", "response": "3 hits"}, False),
        ({"type": "tool_result", "tool_use_id": "c1", "content": "3 hits"}, False),
        ({"toolResult": {"toolUseId": "c1", "content": [{"text": "3 hits"}]}}, False),
        ({"functionResponse": {"name": "search", "response": {"hits": 3}}}, False),
    ],
)
def test_a_result_in_a_message_of_the_user_is_none_of_their_words(part: Any, is_users: bool) -> None:
    question = question_of({"gen_ai.input.messages": json.dumps([{"role": "user", "parts": [part]}])})
    assert question is not None
    assert question.is_users is is_users


GRADED = [("system", "Document 1."), ("user", "Look at it."), ("user", "Is it relevant?")]


@pytest.mark.parametrize("form", FORMS)
def test_all_that_was_sent_is_the_same_whatever_the_model_said(form: Any) -> None:
    sent = sent_of(form(GRADED))
    own = [("assistant", "I will see."), ("assistant", "I will look again.")]
    assert sent is not None
    assert sent_of(form([*GRADED, *own])) == sent
    assert sent_of(form([*GRADED[:2], *own, GRADED[2]])) == sent
    assert sent_of(form([*GRADED, *own, GRADED[2]])) == sent


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "other",
    [
        pytest.param([("system", "Document 2."), *GRADED[1:]], id="in the instructions"),
        pytest.param([GRADED[0], ("user", "Look at this."), GRADED[2]], id="in an earlier message"),
        pytest.param([*GRADED[:2], ("assistant", "Hm."), ("user", "Why?"), GRADED[2]], id="between its own words"),
    ],
)
def test_what_stands_before_the_newest_message_is_sent_too(form: Any, other: list[tuple[str, str]]) -> None:
    assert sent_of(form(GRADED)) != sent_of(form(other))


@pytest.mark.parametrize("form", FORMS)
def test_the_middle_of_a_long_message_is_sent_too(form: Any) -> None:
    one, other = ([("user", "a" * 100_000 + which + "b" * 100_000)] for which in "xy")
    assert question_of(form(one)) == question_of(form(other))
    assert sent_of(form(one)) != sent_of(form(other))


def test_instructions_beside_the_messages_are_sent_too() -> None:
    asked = {"gen_ai.input.messages": messages(ASKED)}
    one, other = ({**asked, "gen_ai.system_instructions": f'[{{"content": "Document {n}."}}]'} for n in (1, 2))
    assert len({sent_of(each) for each in (asked, one, other)}) == 3
    # The form of Anthropic's API.
    body = [{"mlflow.spanInputs": f'{{"system": "Document {n}", "messages": [{{"role": "user"}}]}}'} for n in (1, 2)]
    assert sent_of(body[0]) != sent_of(body[1])


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"gen_ai.input.messages": "[]"}, id="no messages"),
        pytest.param({"gen_ai.input.messages": "hello"}, id="no JSON"),
        pytest.param({"gen_ai.input.messages": messages([("system", "Be brief.")])}, id="instructions alone"),
        pytest.param({"gen_ai.input.messages": '[{"role": {"type": "string"}}]'}, id="a schema"),
        pytest.param({"gen_ai.input.messages": json.dumps(['"role": "user"'])}, id="a role in content"),
    ],
)
def test_what_is_not_recorded_is_no_question(attributes: dict[str, Any]) -> None:
    assert question_of(attributes) is None


def test_a_long_message_is_compared_by_both_of_its_ends_and_its_length() -> None:
    long = "a" * 10_000
    assert len({excerpt(text) for text in (long, long + "a", "b" + long[1:], long[1:] + "b")}) == 4
    assert len(excerpt(long)) <= MAX_EXCERPT + 10


@given(st.text('"role: user{}[],\\asitn', max_size=200))
def test_hostile_content_raises_nothing(text: str) -> None:
    for key in ("gen_ai.input.messages", "mlflow.spanInputs", "gcp.vertex.agent.llm_request", "gen_ai.prompt.0.role"):
        for written in (text, f'{{"messages": [{{"role": "user", {text}'):
            found = question_of({key: written})
            assert found is None or isinstance(found, ModelQuestion)
            assert (found is None) or isinstance(sent_of({key: written}), bytes)


def test_a_role_that_is_no_text_raises_nothing() -> None:
    attributes = {"gen_ai.prompt.0.role": {"name": "user"}, "gen_ai.prompt.0.content": "hello"}
    assert isinstance(sent_of(attributes), bytes)
