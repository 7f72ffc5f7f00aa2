"""The harness of equality: it shows what differs, and only that."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.equality.comparing import COUNTED, Difference, differences, lines, save, settled


def compared(tmp_path: Path, name: str, before: Any, after: Any) -> list[str]:
    for folder, document in (("before", before), ("after", after)):
        save(tmp_path / folder / name, document)
    found = differences(tmp_path / "before", tmp_path / "after")
    return [f"{document}{path}: {text}" for document, unequal in found.items() for path, text in unequal]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        pytest.param({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "x.json['a'][0]['b']: 1, now 2", id="a value"),
        pytest.param({"a": 1}, {}, "x.json['a']: only before: 1", id="a field that went"),
        pytest.param({}, {"a": 1}, "x.json['a']: only after: 1", id="a field that came"),
        pytest.param([1], [1, 2], "x.json: [1], now [1, 2]", id="another length"),
        pytest.param([1, 2], [2, 1], "x.json[0]: 1, now 2", id="another order"),
        pytest.param({"a": None}, {"a": 0}, "x.json['a']: null, now 0", id="nothing is not zero"),
        pytest.param({"a": True}, {"a": 1}, "x.json['a']: true, now 1", id="true is not one"),
        pytest.param({"a": 0.1}, {"a": 0.1000001}, "x.json['a']: 0.1, now 0.1000001", id="the smallest difference"),
    ],
)
def test_a_difference_is_shown_with_its_path(tmp_path: Path, before: Any, after: Any, line: str) -> None:
    assert compared(tmp_path, "x.json", before, after)[0] == line


def test_the_order_of_fields_is_no_difference(tmp_path: Path) -> None:
    assert compared(tmp_path, "x.json", {"a": 1, "b": 2}, {"b": 2, "a": 1}) == []


def test_counts_of_instructions_may_differ_by_one_percent(tmp_path: Path) -> None:
    assert compared(tmp_path, COUNTED, {"parse": 100.0, "evaluate": 100.0}, {"parse": 100.9, "evaluate": 101.1}) == [
        "instructions.json['evaluate']: 100.0, now 101.1"
    ]


def test_a_document_that_is_missing_is_a_difference(tmp_path: Path) -> None:
    save(tmp_path / "before" / "x.json", 1)
    save(tmp_path / "before" / "y.json", 1)
    save(tmp_path / "after" / "x.json", 1)
    assert differences(tmp_path / "before", tmp_path / "after") == {"y.json": [Difference("", "only before")]}
    with pytest.raises(FileNotFoundError):
        differences(tmp_path / "before", tmp_path / "nothing")


def test_what_differs_in_many_documents_is_summed_up_by_path() -> None:
    found = {"x.json": [Difference(f"[{number}]['a']", "1, now 2") for number in range(7)]}
    found["y.json"] = [Difference("[0]['a']", "1, now 2")]
    assert list(lines(found))[4:] == [
        "x.json[4]['a']: 1, now 2",
        "x.json: and 2 more",
        "y.json[0]['a']: 1, now 2",
        "in 2: []['a'], as in x.json",
        "2 documents differ",
    ]


def test_times_of_the_run_are_one_and_recorded_times_stay() -> None:
    document = {"a": ["at 1970-01-01T00:01:40.5Z"], "b": "1970-01-01T00:01:39Z", "c": 100}
    assert settled(document, since=100) == {"a": ["at now"], "b": "1970-01-01T00:01:39Z", "c": 100}
