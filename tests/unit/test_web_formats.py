from typing import Any

import pytest
from agenteval_collector.serve.web import formats
from agenteval_collector.serve.web.formats import LONGEST_WORD, PREVIEW_CHARACTERS, oneline

from tests.support.memory_queries import NOW


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


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-03-02T09:04:00Z", "just now"),
        ("2026-03-02T09:05:00Z", "just now"),
        ("2026-03-02T09:03:15.500000Z", "44 s ago"),
        ("2026-03-02T09:00:59Z", "3 min ago"),
        ("2026-03-02T06:59:59Z", "2 h ago"),
        ("2026-02-27T09:04:00Z", "3 d ago"),
        (None, "never"),
    ],
)
def test_ago(time: str | None, expected: str) -> None:
    assert formats.ago(time, NOW) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [("00.25", "250 ms"), ("02.4", "2.4 s"), ("59.96", "60.0 s")],
)
def test_between(seconds: str, expected: str) -> None:
    assert formats.between("2026-03-02T09:00:00Z", f"2026-03-02T09:00:{seconds}Z") == expected


def test_between_longer_times() -> None:
    assert formats.between("2026-03-02T09:00:00Z", "2026-03-02T09:03:12Z") == "3 min 12 s"
    assert formats.between("2026-03-02T09:00:00Z", "2026-03-02T11:03:12Z") == "2 h 3 min"
    assert formats.between(None, "2026-03-02T11:03:12Z") == "unknown"


@pytest.mark.parametrize(
    ("usd", "expected"),
    [
        (None, "–"),
        (0.0, "$0.00"),
        (0.000144, "$0.00014"),
        (0.0000021, "$0.0000021"),
        (0.5, "$0.50"),
        (1234.5, "$1,234.50"),
    ],
)
def test_small_amounts_have_two_significant_digits(usd: float | None, expected: str) -> None:
    assert formats.money(usd) == expected
