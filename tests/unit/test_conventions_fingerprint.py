"""The fingerprint of an agent's instructions and tools, on instructions as frameworks and applications write them."""

import json
import time
from typing import Any

import pytest

from otel_agenteval.conventions.fingerprint import DIGITS, MAX_READ, fingerprint, stable
from tests.support.recordings import DATA

PAIRS: list[dict[str, Any]] = json.loads((DATA / "instructions" / "pairs.json").read_text())
"""Two instructions each, and whether they are the same but for what changes from one run to the next. The rules were
written on those of the half `known`."""


@pytest.mark.parametrize("pair", PAIRS, ids=[pair["name"] for pair in PAIRS])
def test_instructions_are_the_same_but_for_what_changes_each_time(pair: dict[str, Any]) -> None:
    assert (fingerprint(pair["first"], None) == fingerprint(pair["second"], None)) is pair["same"]


def test_nothing_that_was_recorded_has_no_fingerprint() -> None:
    assert fingerprint(None, None) is None
    assert fingerprint("", None) is None


def test_tools_count_by_their_definitions_else_by_their_names() -> None:
    tools = json.dumps([{"name": "search", "parameters": {"type": "object"}}])
    kinds = [
        fingerprint("Be kind.", None),
        fingerprint("Be kind.", tools),
        fingerprint("Be kind.", tools.replace("object", "string")),
        fingerprint("Be kind.", None, ["search"]),
        fingerprint(None, tools),
    ]
    assert len({*kinds}) == len(kinds)
    assert all(kind is not None and len(kind) == DIGITS for kind in kinds)
    assert fingerprint("Be kind.", None, ["a", "b"]) == fingerprint("Be kind.", None, ["b", "a"])
    assert fingerprint(None, json.loads(tools)) == fingerprint(None, json.loads(tools))


@pytest.mark.parametrize(
    "piece",
    ["<context>", "<user ", "\n", " ", "a.", "a", "1", "_", "the user is ", "mon ", "context\n-----\n", "date: ",
     "memories:\n", '"a_id" : "', "12:34 ", "a@a.", "call the user as ", "id=a ", "\t- ", "A’", "2025-01-01T"],
)  # fmt: skip
def test_hostile_instructions_take_no_longer_than_others(piece: str) -> None:
    text = piece * (MAX_READ // len(piece))
    began = time.process_time()
    stable(text)
    # Linear in the text: what grows with its square takes minutes.
    assert time.process_time() - began < 3.0
