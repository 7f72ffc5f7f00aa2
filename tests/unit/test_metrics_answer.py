"""An answer beside the expected one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import answer_correctness


@pytest.mark.parametrize(
    ("answer", "expected", "match"),
    [
        ("42", "42", "exact"),
        (" Paris. ", "paris", "exact"),
        ("**Yes**", "yes", "exact"),
        ("The total is 42 euros.", "42", "contained"),
        ("It is in\nNew   York City", "new york", "contained"),
        ("Use C++ here", "C++", "contained"),
        ("ﬁnd it", "find", "contained"),
        ("142", "42", None),
        ("420", "42", None),
        ("It is unknown", "known", None),
        ("Paris", "Paris, France", None),
        ("", "Paris", None),
        ("a.b", "axb", None),
    ],
)
def test_an_answer_is_right_if_it_is_the_expected_one_or_contains_it(
    answer: str, expected: str, match: str | None
) -> None:
    found = answer_correctness(answer, expected)
    assert (found.score, found.metadata["match"]) == (float(match is not None), match)


@given(
    st.from_regex(r"[a-z0-9]{1,8}( [a-z0-9]{1,8}){0,3}", fullmatch=True), st.lists(st.sampled_from("xyz"), max_size=4)
)
def test_words_around_it_do_not_matter(expected: str, around: list[str]) -> None:
    words = " ".join([*around, expected.upper(), *around])
    assert answer_correctness(words, expected).score == 1.0


@pytest.mark.parametrize("expected", ["", "  ", "?!"])
def test_an_expected_answer_without_a_word_is_refused(expected: str) -> None:
    with pytest.raises(ValueError, match="expected is"):
        answer_correctness("yes", expected)
