from typing import Any

import pytest
from agenteval_collector.web.formats import LONGEST_WORD, PREVIEW_CHARACTERS, oneline


@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param(None, "not recorded", id="nothing"),
        pytest.param("two\n  lines", "two lines", id="white space"),
        pytest.param({"city": "Paris"}, '{"city": "Paris"}', id="JSON"),
        pytest.param("x" * PREVIEW_CHARACTERS, "x" * PREVIEW_CHARACTERS, id="as long as there is room for"),
        pytest.param("word " * 100, "word " * 79 + "...", id="at the end of a word"),
        pytest.param("thirteen char " * 100, "thirteen char " * 28 + "...", id="not in the middle of a word"),
        pytest.param("x " + "y" * 1000, "x " + "y" * (PREVIEW_CHARACTERS - 2) + " ...", id="what is no word"),
    ],
)
def test_a_preview_is_one_line_and_says_where_it_goes_on(value: Any, line: str) -> None:
    assert oneline(value) == line
    assert len(line) <= PREVIEW_CHARACTERS + len(" ...")
    assert LONGEST_WORD < PREVIEW_CHARACTERS
