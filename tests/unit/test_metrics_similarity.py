import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import jaccard_similarity
from otel_agenteval.metrics.similarity import STOP_WORDS, TokenSets

texts = st.text(max_size=80)
phrases = st.lists(
    st.sampled_from(["flight", "booked", "the", "今天天气很好我想出去玩但是没有时间", "हिन्दी", "a", "🙂", "0", "\n"]),
    max_size=8,
).map(" ".join)

IN_EVERY_LANGUAGE = [
    pytest.param("I could not find any flights.", id="English"),
    pytest.param("今天天气很好我想出去玩但是我没有时间所以不去了", id="Chinese, a sentence without a space"),
    pytest.param("你好，世界", id="Chinese, with a comma"),
    pytest.param("申し訳ございませんが、その予約は見つかりませんでした。", id="Japanese"),
    pytest.param("ขออภัย ไม่พบการจองของคุณ", id="Thai"),
    pytest.param("हिन्दी भाषा में लिखा", id="Hindi, every word split by marks"),
    pytest.param("مرحبا بالعالم", id="Arabic"),
    pytest.param("it is the", id="stop words only"),
    pytest.param("👍🏽", id="emoji"),
    pytest.param("0", id="one character"),
    pytest.param("a b c d e f g", id="single letters"),
    pytest.param("ok " + "=" * 400, id="one word and a rule of symbols"),
]


@pytest.mark.parametrize("text", IN_EVERY_LANGUAGE)
def test_a_text_repeats_itself_in_every_language(text: str) -> None:
    assert jaccard_similarity(text, text) == 1.0


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        pytest.param("", "", 0.0, 0.0, id="two empty texts have nothing in common"),
        pytest.param("  \n", " \t ", 0.0, 0.0, id="white space is no token"),
        pytest.param("", "flights booked", 0.0, 0.0, id="an empty text and a text"),
        pytest.param("Booked the flight", "flight, BOOKED!", 1.0, 1.0, id="case, order, marks and stop words"),
        pytest.param("booked flight", "booked hotel", 1 / 3, 1 / 3, id="one word of three"),
        pytest.param("ab ab ab ab", "ab", 1.0, 1.0, id="a token counts once"),
        pytest.param(
            "今天天气很好我想出去玩但是我没有时间",
            "今天天气很好我想出去玩但是他没有时间",
            0.6,
            0.8,
            id="one character of a Chinese sentence changed",
        ),
        pytest.param(
            "今天天气很好我想出去玩但是我没有时间", "数据库连接失败请稍后再试谢谢您的耐心", 0.0, 0.0, id="other Chinese"
        ),
        pytest.param("हिन्दी में", "मराठी में", 0.1, 0.6, id="Hindi with one word in common"),
        pytest.param("ab", "abc", 0.0, 0.0, id="two words"),
        pytest.param("?!", "?!x", 0.0, 0.0, id="a text shorter than a trigram is compared as a whole"),
    ],
)
def test_overlap(a: str, b: str, low: float, high: float) -> None:
    assert low <= jaccard_similarity(a, b) <= high


@pytest.mark.parametrize(
    ("text", "trigrams"),
    [
        pytest.param("flight", False, id="a token for 6 characters"),
        pytest.param("f" * 15, False, id="exactly one token per 15 characters"),
        pytest.param("f" * 16, True, id="fewer than one token per 15 characters"),
        pytest.param("ok" + " " * 100, False, id="white space does not count as characters"),
        pytest.param("ok ok " * 50, False, id="every occurrence of a token counts"),
        pytest.param("it is the", True, id="no token"),
        pytest.param("今天天气很好我想出去玩但是我没有时间", True, id="a sentence in one token"),
    ],
)
def test_trigrams_are_used_where_tokens_are_rare(text: str, trigrams: bool) -> None:
    assert TokenSets(text).needs_trigrams is trigrams
    assert not TokenSets(text, compatible=True).needs_trigrams


def test_one_text_that_needs_trigrams_brings_the_other_to_trigrams() -> None:
    words, joined = "查询 航班 失败 请稍后 再试", "查询航班失败请稍后再试谢谢您的耐心等待"
    assert not TokenSets(words).needs_trigrams
    assert TokenSets(joined).needs_trigrams
    assert jaccard_similarity(words, joined) > 0.0
    assert jaccard_similarity(words, joined, compatible=True) == 0.0


def test_compatible_keeps_the_published_tokeniser() -> None:
    assert jaccard_similarity("it is the", "it is the", compatible=True) == 0.0
    assert jaccard_similarity("हिन्दी", "हिन्दी", compatible=True) == 0.0


@given(a=texts | phrases, b=texts | phrases, compatible=st.booleans())
def test_overlap_is_symmetric_and_a_share(a: str, b: str, compatible: bool) -> None:
    overlap = jaccard_similarity(a, b, compatible)
    assert overlap == jaccard_similarity(b, a, compatible)
    assert 0.0 <= overlap <= 1.0


@given(texts | phrases)
def test_a_text_equals_itself_unless_it_is_blank(text: str) -> None:
    assert jaccard_similarity(text, text) == (1.0 if text.strip() else 0.0)


@given(texts | phrases)
def test_tokens_are_the_runs_of_word_characters(text: str) -> None:
    """The oracle walks through the characters; letters, numbers and the underscore make words."""
    runs, run = [], ""
    for character in text.lower() + " ":
        if character == "_" or unicodedata.category(character)[0] in "LN":
            run += character
        else:
            runs.append(run)
            run = ""
    assert TokenSets(text).words == {run for run in runs if len(run) > 1} - STOP_WORDS
