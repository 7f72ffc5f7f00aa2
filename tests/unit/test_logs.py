"""The log of the process: a line of JSON for each record, whatever a text holds."""

import json
import logging
import sys

from agenteval_collector.runtime.logs import JsonLines
from hypothesis import given
from hypothesis import strategies as st


def record(message: str, *, failed: bool = False) -> logging.LogRecord:
    made = logging.LogRecord("agenteval_collector.app", logging.WARNING, "x.py", 1, "%s", (message,), None)
    made.created = 1_700_000_000.25
    if failed:
        try:
            raise ValueError("a\nb")
        except ValueError:
            made.exc_info = sys.exc_info()
    return made


def test_a_record_is_an_object_with_the_time_in_utc() -> None:
    assert json.loads(JsonLines().format(record("the disk is full"))) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "agenteval_collector.app",
        "message": "the disk is full",
    }


def test_an_exception_is_a_field() -> None:
    assert json.loads(JsonLines().format(record("failed", failed=True)))["exception"].endswith("ValueError: a\nb")


@given(st.text())
def test_a_text_cannot_end_its_line(text: str) -> None:
    line = JsonLines().format(record(text))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == text
