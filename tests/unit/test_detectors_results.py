"""Which results are answers: four of them to different arguments are no progress."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors import Detectors, RuleBook, Step, StepKind
from otel_agenteval.detectors.results import is_answer
from otel_agenteval.model import Json

LONG = "The parcel left our hall in Porto on Monday and will be with you in a week, as we have told you before."

ANSWERS: list[tuple[str, Json]] = [
    ("search", "no results"),
    ("search", "No results found."),
    ("search", "3 hits"),
    ("search", 0),
    ("search", False),
    ("search", "Refunds are paid within 14 days."),
    ("search_docs", "Keine Ergebnisse gefunden"),
    ("searchFlights", "没有找到结果"),
    ("web-search", "Aucun résultat."),
    ("find_hotel", "ничего не найдено"),
    ("lookup_policy", {"answer": "14 days"}),
    ("look_up_policy", "14 days"),
    ("retrieve", ["the same passage"]),
    ("grep", "main.py:12: return None"),
    ("kb.search", {"status": "ok", "results": []}),
    ("list_orders", []),
    ("list_orders", "[]"),
    ("list_orders", {"orders": [], "total": 0}),
    ("list_orders", {"ok": True, "orders": []}),
    ("get_user", "not found"),
    ("get_user", "User does not exist"),
    ("get_user", "There's nobody here. Didn't find any."),
    ("get_user", {"user": None, "message": "unknown user"}),
    ("get_policy", LONG),
    ("get_policy", {"text": LONG}),
    ("shell", LONG),
    ("book_seat", {"success": False}),
    ("book_seat", {"success": False, "message": ""}),
    ("book_seat", False),
    ("book_seat", "taken"),
    ("book_seat", "Sorry, try again later."),
    ("book_seat", {"status": "rejected"}),
    ("pay", "balance too low"),
    ("pay", {"paid": [], "open": 3}),
    ("pay", "Insufficient funds"),
    ("send_mail", "not sent"),
    ("send_mail", "Unable to reach the server. " + LONG),
    ("execute_sql", "permission denied for relation users"),
    ("fetch_page", "request timed out"),
    ("fetch_page", "the same page"),
    ("query", "x"),
    ("query_database", "0 rows"),
    ("query_database", 7),
    ("read_file", "import os"),
    ("poll_job", "pending"),
    ("tool", "same"),
    ("t", {"value": "same"}),
]

NO_ANSWERS: list[tuple[str, Json]] = [
    ("search", None),
    ("search", ""),
    ("search", '""'),
    ("search", "null"),
    ("search", "None"),
    ("search", {}),
    ("search", {"result": None}),
    ("delete_file", 204),
    ("delete_file", "204"),
    ("delete_file", True),
    ("delete_file", "true"),
    ("delete_file", {"deleted": 1}),
    ("click", "Clicked"),
    ("click", {"status": "success", "message": "Element clicked"}),
    ("browser_click", "Clic effectué"),
    ("execute_sql", "1 row affected"),
    ("execute_sql", "INSERT 0 1"),
    ("create_ticket", {"ok": True, "id": None}),
    ("create_ticket", {"ok": True, "errors": [], "warnings": []}),
    ("create_ticket", {"ok": True, "cached": False}),
    ("create_ticket", {"status": "success", "note": "no mail on file"}),
    ("create_user", "User created. No mail was sent."),
    ("post", {"ok": True, "comments": []}),
    ("write_file", "OK"),
    ("write_file", "已保存"),
    ("write_file", "Datei gespeichert"),
    ("write_file", f"Done. {LONG}"),
    ("write_file", {"status": "ok", "note": LONG}),
    ("sendMail", "Wiadomość wysłana"),
    ("send_mail", "Email sent."),
    ("find_and_click", "Clicked"),
    ("decline_offer", "declined"),
    ("reject_invoice", {"status": "rejected"}),
    ("lint", "No issues found"),
    ("bash", "(no output)"),
    ("http", 204),
    ("http", {"status": 200, "body": ""}),
    ("invoke", "ok"),
    ("invoke", {"ok": True}),
    ("calculator", 42),
    ("python_repl", "Tool ran without output or errors"),
    ("run_tests", "12 passed, errors: 0"),
    ("run", {"exit_code": 0, "stdout": "", "stderr": ""}),
    ("check_order", "eligible"),
    ("check_order", {"eligible": False}),
    ("is_prime", False),
    ("has_stock", "no"),
    ("ask_user", "No."),
    ("get_weather", "sunny"),
    ("get_stock", 0),
    ("get_stock", {"count": 12}),
    ("get_name", "Ann"),
]


@pytest.mark.parametrize(("tool", "result"), ANSWERS, ids=str)
def test_the_same_answer_to_other_arguments_is_no_progress(tool: str, result: Json) -> None:
    assert is_answer(tool, result)
    assert is_answer(tool, json.dumps(result))
    assert no_progress(tool, result) == [3]


@pytest.mark.parametrize(("tool", "result"), NO_ANSWERS, ids=str)
def test_a_confirmation_or_a_label_may_be_right_for_many_arguments(tool: str, result: Json) -> None:
    assert not is_answer(tool, result)
    assert not is_answer(tool, json.dumps(result))
    assert no_progress(tool, result) == []


def no_progress(tool: str, result: Json) -> list[int]:
    """Which of six calls, each with other arguments, are told of."""
    detectors = Detectors("s-1", "t-1", RuleBook())
    calls = [
        Step(kind=StepKind.TOOL, name=tool, span_id=str(number), arguments={"of": number}, result=result)
        for number in range(6)
    ]
    return [number for number, call in enumerate(calls) if detectors.observe(call)]


@given(st.text(), st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists) | st.text('[]{}"\\,'))
def test_any_result_of_any_tool_can_be_looked_at(tool: str, result: Json) -> None:
    is_answer(tool, result)


def test_what_is_nested_too_deeply_or_long_is_looked_at_too() -> None:
    nested: Json = []
    for _ in range(100_000):
        nested = [nested]
    is_answer("get", nested)
    is_answer("get", "[" * 60_000)
    is_answer("get", "0 " * 1_000_000)
