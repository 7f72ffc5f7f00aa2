"""What came of a call is read from results in the forms of many tools, and in whatever envelope they come."""

import json
import re
import time
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agenteval.detectors.call_outcomes import MOST, may_have_form, outcome_of
from otel_agenteval.model import CallOutcome

DATA = Path(__file__).parents[1] / "data" / "outcomes"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for file in sorted(DATA.glob("*.jsonl")) for line in file.read_text().splitlines()
]
"""`tune` was looked at while the forms were written, `aside` only afterwards."""


def read(row: dict[str, Any], result: Any) -> str:
    return outcome_of(row["tool"], row["arguments"], result).outcome.value


def test_at_least_98_of_100_results_are_read_as_what_they_are() -> None:
    wrong = [(row["form"], row["is"], found) for row in ROWS if (found := read(row, row["result"])) != row["is"]]
    assert len(ROWS) > 200
    assert len(wrong) <= 0.02 * len(ROWS), wrong


def test_hardly_any_harmless_result_is_a_failure() -> None:
    harmless = [row for row in ROWS if row["is"] != "failed"]
    wrong = [row["form"] for row in harmless if read(row, row["result"]) == "failed"]
    assert len(wrong) <= 0.02 * len(harmless), wrong


def as_text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


ENVELOPES = {
    "JSON text": lambda result: result if isinstance(result, str) else json.dumps(result),
    "JSON in JSON": lambda result: json.dumps(as_text(result)),
    "MCP content": lambda result: {"content": [{"type": "text", "text": as_text(result)}], "isError": False},
    "MCP content as text": lambda result: json.dumps([{"type": "text", "text": as_text(result)}]),
    "a tool message": lambda result: {"role": "tool", "tool_call_id": "c", "content": as_text(result)},
    "LangChain's message": lambda result: {
        "type": "tool",
        "name": "f",
        "tool_call_id": "c",
        "content": as_text(result),
    },
    "an output": lambda result: {"output": as_text(result), "type": "function_call_output", "call_id": "c"},
}


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_envelope_changes_nothing(envelope: str) -> None:
    # A text that is no content at all is another thing in an envelope than alone.
    rows = [row for row in ROWS if row["result"] not in ("", None) and not isinstance(row["result"], bool | int)]
    changed = [
        (row["form"], read(row, row["result"]), found)
        for row in rows
        if (found := read(row, ENVELOPES[envelope](row["result"]))) != read(row, row["result"])
    ]
    assert len(changed) <= 0.02 * len(rows), changed


@pytest.mark.parametrize("name", ["{}", "{}_tool", "my.{}", "mcp__server__{}"])
def test_the_name_of_the_server_changes_nothing(name: str) -> None:
    rows = [row for row in ROWS if row["is"] == "failed"]
    missed = [
        row["form"]
        for row in rows
        if outcome_of(name.format(row["tool"]), row["arguments"], row["result"]).outcome is not CallOutcome.FAILED
    ]
    assert len(missed) <= 0.05 * len(rows), missed


def test_a_result_that_was_not_recorded_is_unknown() -> None:
    assert outcome_of("f", {}, None).outcome is CallOutcome.UNKNOWN


def test_the_words_of_an_exit_code_are_what_was_printed_last() -> None:
    reading = outcome_of("bash", {"command": "python x.py"}, "Exit code 1\nTraceback ...\nValueError: bad")
    assert (reading.outcome, reading.told_by, reading.words) == (CallOutcome.FAILED, "exit code 1", "ValueError: bad")


@pytest.mark.parametrize(
    "text",
    [
        "error " * 200_000,
        "a" * 1_000_000,
        "\n" * 1_000_000,
        "failed to " + "( " * 400_000,
        "{" * 100_000,
        "[" * 100_000,
        '{"a":' * 50_000,
        "content='" * 100_000,
        "0 " * 500_000,
        "Exit code " * 100_000,
        "错误" * 300_000,
    ],
    ids=lambda text: text[:10],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    outcome_of("run", {"command": text}, text)
    outcome_of("search", {"q": text}, {"output": text})
    assert time.process_time() - began < 1.0
    assert len(text) > MOST


def test_deep_and_odd_values_do_no_harm() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = {"result": deep}
    odd: list[Any] = [
        deep,
        [[[]]],
        {"": {}},
        {"a": float("nan")},
        {"status": {"state": 3}},
        {"error": [[], {}]},
        [None],
    ]
    for value in odd:
        assert outcome_of("f", None, value).outcome in CallOutcome


OPEN = ("can ?not", "(?:your |the )?(?:search|query", "(?:the )?user (?:has )?(?:rejected", "(?:e: (?:unable")
"""Lines that end where the next word decides."""


def lines() -> list[str]:
    """The lines of the table in ASCII: other texts are always looked at."""
    table = tomllib.loads((files("otel_agenteval.detectors") / "call_forms.toml").read_text(encoding="utf-8"))
    rows = [*table["form"], table["nothing"], table["missing"]]
    every = [line for row in rows for line in row["begins"].split("\n")[:-1]]
    plain = [re.sub(r"\{\w+\}", lambda found: "error" if found[0] == "{error}" else "", line) for line in every]
    return [line for line in plain if line.strip() and line.isascii() and not line.startswith(OPEN)]


PLAIN = st.characters(min_codepoint=32, max_codepoint=126)


@pytest.mark.parametrize("line", lines())
@settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much], deadline=None)
@given(data=st.data())
def test_no_line_of_the_table_is_kept_from_being_looked_at(line: str, data: st.DataObject) -> None:
    """A text is looked at only if it has one of the words under `gate`: a new line may need a new word there."""
    assert may_have_form(data.draw(st.from_regex(line, fullmatch=True, alphabet=PLAIN)))


@pytest.mark.parametrize(
    "text",
    [
        "Permesso negato: ordine chiuso",
        "Zugriff verweigert: nur für Admins",
        "Brak uprawnień do zasobu",
        "Odmowa dostępu",
        "Toegang geweigerd",
        "Permiso denegado",
        "Akses ditolak untuk peran ini",
        "нет прав на чтение",
        "没有权限访问该资源",
        "הגישה נדחתה",
        "Too many requests, slow down",
        "Time out while connecting to the inventory",
        "No replacement was performed, old_str did not appear verbatim in a.py",
    ],
)
def test_a_denial_is_a_failure_in_whatever_language(text: str) -> None:
    assert outcome_of("refund", {"order": 7}, text).outcome is CallOutcome.FAILED


@pytest.mark.parametrize(
    "text",
    [
        "Leider nichts gefunden",
        "Nous n'avons rien trouvé",
        "No hay coincidencias",
        "Não foram encontrados registros",
        "Non è stato trovato nulla",
        "Niets gevonden",
        "Tuloksia ei löytynyt",
        "Niczego nie znaleziono",
        "Нічого не знайдено",
        "Hiçbir sonuç bulunamadı",
        "لم يتم العثور على نتائج",
        "कोई परिणाम नहीं मिला",
        "ไม่พบข้อมูล",
        "Tidak ditemukan",
        "没有找到相关结果",
        "該当する宿泊施設が見つかりませんでした。条件を変更してください。",
        "We could not locate an order with that number.",
        "Found 0 results",
    ],
)
def test_nothing_is_nothing_in_whatever_language(text: str) -> None:
    assert outcome_of("search_orders", {"text": "x"}, text).outcome is CallOutcome.NOTHING


@pytest.mark.parametrize(
    "text",
    [
        "Das Datum ist ungültig",
        "Date non valide",
        "Неверный формат",
        "日期格式不正确",
        "날짜 형식이 올바르지 않습니다",
        "Tanggal tidak valid",
    ],
)
def test_what_is_not_valid_is_a_failure_in_whatever_language(text: str) -> None:
    assert outcome_of("submit_form", {"date": "x"}, text).outcome is CallOutcome.FAILED


@pytest.mark.parametrize(
    "text",
    ["No changes were made.", "Your read-only report is ready", "Negative feedback: 3", "All paused jobs are listed"],
)
def test_a_word_of_failure_alone_is_none(text: str) -> None:
    assert outcome_of("summary", {}, text).outcome is CallOutcome.WORKED
