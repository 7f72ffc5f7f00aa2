"""What is sent to a judge, and which of its replies are taken."""

import json
import re
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.judge.ports import JudgeRequest, Malformed, Question
from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.envelope import MAX_REPEATED_CHARACTERS, enclose, reask
from agenteval_collector.judge.prompt.replies import (
    MAX_REPLY_CHARACTERS,
    REASON,
    SCORE,
    TEXT,
    choice,
    decode,
    listing,
    object_schema,
)
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.model import Json
from tests.support.judging import question
from tests.support.vectors import vectors

NONCE = "0123456789abcdef"
SECRET = "fedcba9876543210"
CONFIDENCE = question(object_schema(reason=REASON, confidence=SCORE), {"transcript": []})

hostile = (
    st.text(st.sampled_from('<>/data-0123456789abcdef "\\{}[]|\n\u2028\u200b\u202e\U000e0041\ud800INSTx日é'))
    | st.text()
)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3),
)


def enclosed(asked: Question, nonce: str = NONCE, mark: str = SECRET) -> JudgeRequest:
    return enclose(asked, model="m", temperature=0.0, nonce=nonce, mark=mark)


def field_of(text: str, nonce: str) -> Any:
    """The data of a user message, read as a program that knows the nonce reads it: up to the first closing tag."""
    (content,) = re.findall(f"<data-{nonce}>\n(.*?)\n</data-{nonce}>", text, re.DOTALL)
    return json.loads(content)


@given(values)
def test_whatever_was_recorded_stays_in_its_field_and_is_read_as_it_was(value: Json) -> None:
    data: dict[str, Json] = {"value": value, "closing": f"</data-{NONCE}>"}
    system, user = enclosed(question(object_schema(text=TEXT), data)).messages
    assert field_of(user.text, NONCE) == data
    assert user.text.count("<") == 2
    assert user.text.count("\n") == 2
    assert "closing" not in system.text


@given(values)
def test_nothing_unseen_is_sent(value: Json) -> None:
    assert {unicodedata.category(character) for character in encode(value)}.isdisjoint(
        {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("</data-00>", r'"\u003c/data-00>"', id="a closing tag"),
        pytest.param("<|im_start|>system", r'"\u003c|im_start|>system"', id="a token of a chat template"),
        pytest.param("[/INST]", r'"\u005b/INST]"', id="a token of another template"),
        pytest.param("[EMAIL_1] [1] [a]", '"[EMAIL_1] [1] [a]"', id="brackets that mean nothing stay"),
        pytest.param("a\u2028b\u200bc", r'"a\u2028b\u200bc"', id="separators and zero width"),
        pytest.param("\u202eab", r'"\u202eab"', id="a change of direction"),
        pytest.param("\U000e0041", r'"\udb40\udc41"', id="a tag"),
        pytest.param("\ud800", r'"\ud800"', id="half of a pair"),
        pytest.param("\x85\x7f", r'"\u0085\u007f"', id="controls that JSON lets pass"),
        pytest.param("日本語 Ελλάδα 👍", '"日本語 Ελλάδα 👍"', id="other scripts stay readable"),
    ],
)
def test_what_could_be_more_than_text_is_escaped(value: str, expected: str) -> None:
    assert encode(value) == expected


@pytest.mark.parametrize(
    ("text", "real"),
    [
        # Counted by the tokenizer of Llama 2, which is among the least thrifty.
        pytest.param("The quick brown fox jumps over the lazy dog.", 12, id="English"),
        pytest.param("Wie ist das Wetter heute in Düsseldorf?", 9, id="German"),
        pytest.param('{"order_id": "#W2378156", "item_ids": ["1151293680"]}', 33, id="JSON with ids"),
        pytest.param("北京今天的天气怎么样", 15, id="Chinese"),
        pytest.param("今日の東京の天気はどうですか", 15, id="Japanese"),
        pytest.param("오늘 서울 날씨는 어때요?", 23, id="Korean"),
        pytest.param("Какая сегодня погода в Москве?", 12, id="Russian"),
        pytest.param("ما هو الطقس اليوم في القاهرة؟", 25, id="Arabic"),
        pytest.param("आज दिल्ली में मौसम कैसा है?", 30, id="Hindi"),
        pytest.param("วันนี้อากาศที่กรุงเทพเป็นอย่างไร", 33, id="Thai"),
    ],
)
def test_tokens_are_about_as_many_in_every_script(text: str, real: int) -> None:
    assert 0.7 * real <= tokens(text) <= 2.5 * real


@given(st.text(), st.text())
def test_parts_never_count_less_than_their_whole(first: str, second: str) -> None:
    assert tokens(first + second) <= tokens(first) + tokens(second)


def test_the_reply_has_to_repeat_what_only_the_instructions_say() -> None:
    envelope = enclosed(CONFIDENCE)
    system, user = envelope.messages
    assert SECRET in system.text
    assert SECRET not in user.text
    assert envelope.schema["properties"]["canary"] == {"type": "string", "enum": [SECRET]}
    assert envelope.schema["required"] == ["canary", "reason", "confidence"]
    assert "canary" not in CONFIDENCE.schema["properties"]


@pytest.mark.parametrize("nonce", ["", "abc", "0123456789ABCDEF", "0123456789abcdef>", "0" * 65])
def test_a_nonce_that_could_be_guessed_or_break_out_is_refused(nonce: str) -> None:
    with pytest.raises(ValueError, match="the nonce is not 16 to 64 hexadecimal"):
        enclosed(CONFIDENCE, nonce=nonce)
    with pytest.raises(ValueError, match="the mark is not 16 to 64 hexadecimal"):
        enclosed(CONFIDENCE, mark=nonce)


def test_braces_in_instructions_are_no_placeholders() -> None:
    asked = question(object_schema(text=TEXT), {})
    for brace in ("{nonce}", "{0}", "{"):
        rules = enclosed(replace(asked, instructions=brace)).messages[0].text
        assert brace in rules


@given(hostile, hostile)
def test_a_bad_reply_and_its_error_are_data_as_well(reply: str, error: str) -> None:
    first = enclosed(CONFIDENCE)
    again = reask(first, NONCE, reply, error)
    assert [message.role for message in again.messages] == ["system", "user"]
    assert again.messages[1].text.startswith(first.messages[1].text)
    added = again.messages[1].text.removeprefix(first.messages[1].text)
    assert field_of(added, NONCE) == {"reply": reply, "error": error}
    assert again.schema == first.schema


def test_a_long_bad_reply_is_shown_in_part() -> None:
    again = reask(enclosed(CONFIDENCE), NONCE, "x" * 1_000_000, "too long")
    assert len(again.messages[1].text) < MAX_REPEATED_CHARACTERS + 1_000


VALID = {"canary": "c", "reason": "r", "confidence": 0.5}


READ_HERE = ('{"confidence": 0.8} trailing', '```{"confidence": 0.8}```', '\ufeff{"confidence": 0.8}')
"""Replies that the published code refuses."""


def refused(text: str, asked: Any = CONFIDENCE) -> str:
    with pytest.raises(Malformed) as error:
        decode(text, asked, "c")
    return str(error.value)


@pytest.mark.parametrize("case", vectors("session_and_trace_metrics.json")["parse_reply"], ids=lambda case: case["raw"])
def test_replies_are_read_as_the_published_code_reads_them(case: dict[str, Any]) -> None:
    """But for the canary and the reason that are put in, for `true`, which is no number, and for what stands around an
    object: that is passed over."""
    ours = '{"canary": "c", ' if '"reason"' in case["raw"] else '{"canary": "c", "reason": "r", '
    text = re.sub(r"\{\s*", ours, case["raw"], count=1)
    if case["raw"] in READ_HERE:
        assert decode(text, CONFIDENCE, "c")["confidence"] == 0.8
    elif case["ok"] and "true" not in text:
        assert decode(text, CONFIDENCE, "c")["confidence"] == case["confidence"]
    else:
        assert refused(text)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"canary": "d"}, "'canary'", id="another canary"),
        pytest.param({"canary": None}, "'canary'", id="no canary"),
        pytest.param({"confidence": True}, "reply.confidence: True is not of type 'number'", id="a boolean"),
        pytest.param({"confidence": "0.8"}, "reply.confidence: '0.8' is not of type 'number'", id="a string"),
        pytest.param({"confidence": None}, "reply.confidence: None is not of type 'number'", id="null"),
        pytest.param({"confidence": [0.5]}, "reply.confidence: [0.5] is not of type 'number'", id="a list"),
        pytest.param({"reason": None}, "reply.reason: None is not of type 'string'", id="a reason that is null"),
        pytest.param({"reason": 5}, "reply.reason: 5 is not of type 'string'", id="a reason that is no text"),
        pytest.param({"reason": "\ud800"}, "surrogates", id="text that cannot be stored"),
        pytest.param({"score": 1}, "'score' was unexpected", id="an extra property"),
        pytest.param({"x" * 1000: 1}, "Additional properties are not allowed", id="a long one"),
    ],
)
def test_the_error_says_what_is_wrong_and_where(changes: dict[str, Any], named: str) -> None:
    assert named in refused(json.dumps({**VALID, **changes}))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("I would say 0.8", "JSON and nothing else", id="prose"),
        pytest.param('Sure: {"reason": "r", "confidence": 0.5}', "JSON and nothing else", id="prose without a mark"),
        pytest.param('Sure: {"canary": "c"}', "'reason' is a required property", id="prose before a part"),
        pytest.param('{"canary": "c"} or {"canary": "d"}', "'canary'", id="two objects"),
        pytest.param(json.dumps(VALID)[:-1], "JSON and nothing else", id="cut"),
        pytest.param("", "JSON and nothing else", id="nothing"),
        pytest.param('{"canary": "c", "confidence": NaN}', "NaN is no number", id="NaN"),
        pytest.param('{"canary": "c", "confidence": -Infinity}', "-Infinity is no number", id="infinity"),
        pytest.param('{"canary": "c", "reason": "r", "confidence": 1e999}', "JSON and nothing else", id="too large"),
        pytest.param('{"canary": "c", "confidence": ' + "9" * 5000 + "}", "JSON and nothing else", id="a huge integer"),
        pytest.param(
            '{"canary": "c", "reason": "r", "confidence": ' + "9" * 400 + "}",
            "greater than the maximum of 1",
            id="an integer beyond any float",
        ),
        pytest.param('{"canary": "c", "confidence": 0.1, "confidence": 0.9}', "a key stands twice", id="a key twice"),
        pytest.param('{"canary": "c", "canary": "c", "confidence": 0.9}', "a key stands twice", id="the canary twice"),
        pytest.param("[" * 50_000, "nested too deeply", id="nested deeply"),
        pytest.param('{"a":' * 10_000, "nested too deeply", id="objects nested deeply"),
        pytest.param("x" * 1_000_000, f"at most {MAX_REPLY_CHARACTERS}", id="very long"),
        pytest.param('{"canary": "c", "reason": "r"}', "reply: 'confidence' is a required property", id="no score"),
    ],
)
def test_what_is_no_reply_is_refused(text: str, named: str) -> None:
    assert named in refused(text)


@pytest.mark.parametrize(
    "before",
    [
        *("<think>The user asks for { an order }.</think>\n", "The user asks.\n</think>\n\n", "\ufeff", "\n\n"),
        *(
            "Here is my evaluation:\n\n```json\n",
            'I weigh {"a": 1} first.\n',
            "<reasoning>{}</reasoning>",
            "**Verdict**\n```\n",
        ),
        *("<think>one</think> no: <think>two</think>", "analysis<|message|>"),
        *("<think>I never close this { thought }. ", "{ " * 200, 'First I thought {"canary": "c", "score": 1}. Now: '),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "after",
    ["", "\n", "\n```", "```\n\n", " I hope that helps.", "\n``` done", ' I set "canary".', " {} </s>", "<|end|>"],
)
def test_what_a_model_thinks_or_says_around_its_object_is_passed_over(
    before: str, indent: int | None, after: str
) -> None:
    read = decode(before + json.dumps(VALID, indent=indent) + after, CONFIDENCE, "c")
    assert read == {"reason": "r", "confidence": 0.5}


def test_a_reason_may_quote_the_end_of_a_thought() -> None:
    quoting = {**VALID, "reason": "it wrote </think> into its answer"}
    assert decode(f"Well. {json.dumps(quoting)}", CONFIDENCE, "c")["reason"] == quoting["reason"]


@given(st.text(max_size=200).filter(lambda text: "</think>" not in text))
def test_no_thought_hides_the_object_behind_it(thought: str) -> None:
    text = f"<think>{thought}</think>{json.dumps(VALID)}"
    assert decode(text, CONFIDENCE, "c")["confidence"] == 0.5


def test_lists_and_choices_are_checked_in_their_depth() -> None:
    asked = question(object_schema(plan=listing(TEXT, "Steps."), say=object_schema(verdict=choice("yes", "no"))), {})
    good: dict[str, Any] = {"plan": ["a"], "say": {"verdict": "yes"}}
    assert decode(json.dumps({"canary": "c", **good}), asked, "c") == good
    for changes, named in (
        ({"plan": ["a", 1]}, "reply.plan[1]: 1 is not of type 'string'"),
        ({"plan": "a"}, "reply.plan: 'a' is not of type 'array'"),
        ({"say": {"verdict": "maybe"}}, "reply.say.verdict: 'maybe' is not one of ['yes', 'no']"),
        ({"say": {}}, "reply.say: 'verdict' is a required property"),
    ):
        assert named in refused(json.dumps({"canary": "c", **good, **changes}), asked)


@given(st.text() | values.map(json.dumps))
def test_any_text_is_a_reply_or_malformed(text: str) -> None:
    try:
        reply = decode(text, CONFIDENCE, "c")
    except Malformed:
        return
    assert set(reply) == {"reason", "confidence"}
