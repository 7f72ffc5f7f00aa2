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
    ("search", ""),
    ("search", "none"),
    ("search", "None"),
    ("search", "null"),
    ("search", "N/A"),
    ("search", {}),
    ("search", {"results": None}),
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
    ("book_seat", {"booked": False}),
    ("book_seat", "Seat 12 is already taken"),
    ("book_seat", "occupied"),
    ("book_flight", "Flight is full"),
    ("book_flight", "sold out"),
    ("book_flight", "No seats available"),
    ("reserve", "unavailable"),
    ("cancel_order", "rejected: too late"),
    ("cancel_order", "Cancellation not possible"),
    ("update_order", "Order cannot be modified"),
    ("update_order", "The order couldn't be modified"),
    ("update_status", {"status": "open", "message": "Update failed"}),
    ("click", "Element not found"),
    ("click", "element is not clickable"),
    ("login", "Invalid credentials"),
    ("login", "Access denied"),
    ("write_file", "Permission denied"),
    ("submit_answer", "Wrong, try again"),
    ("submit_answer", "Incorrect, try again"),
    ("clear_cart", "Failed to clear the cart"),
    ("turn_on_light", {"success": False}),
    ("turn_on_light", {"ok": False, "on": False}),
    ("apply_patch", "patch does not apply"),
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
    ("tool", "same result"),
    ("t", {"value": "same"}),
    ("fetch", "same"),
    ("fetch", "sold out"),
    ("fetch", "Flight is full"),
    ("fetch", "HTTP 404"),
    ("fetch", {"status": 404}),
    ("query", "incorrect"),
    ("try_password", "wrong password"),
    ("tool", "taken"),
    ("query", "rate limited"),
    ("query", "(0 rows)"),
    ("get_customer", {"found": False}),
    ("get_stock_price", "unknown symbol"),
    ("get_post", "Post not found"),
    ("read_log", LONG),
]

NO_ANSWERS: list[tuple[str, Json]] = [
    ("fetch", ""),
    ("fetch", '""'),
    ("fetch", "null"),
    ("fetch", {}),
    ("fetch", {"result": None}),
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
    ("get_priority", "low"),
    ("get_account_status", "expired"),
    ("get_order_status", {"status": "failed", "delivered": False}),
    ("get_feature", {"enabled": False}),
    ("triage", "low"),
    ("computer", "Screenshot taken"),
    ("browser", "Screenshot taken"),
    ("record_measurement", "Measurement taken"),
    ("take_screenshot", "taken"),
    ("set_priority", "Priority set to low"),
    ("set_priority", "low"),
    ("update_ticket", "Ticket priority: low"),
    ("moderate", {"flagged": False}),
    ("scan_file", {"infected": False}),
    ("scan_url", "no threats found"),
    ("detect_spam", "no"),
    ("predict", "no"),
    ("monitor", "No alerts"),
    ("turn_off_light", {"on": False}),
    ("disable_feature", {"enabled": False}),
    ("clear_cart", "Cart is empty"),
    ("clear_cart", {"items": []}),
    ("stop_server", "Server is not running"),
    ("update_status", "Status set to expired"),
    ("update_status", "Status set to failed"),
    ("update_status", {"status": "rejected"}),
    ("add_label", "Label 'error' added"),
    ("mark_job", "Job marked as failed"),
    ("deny_request", "Request denied"),
    ("cancel_order", "Order cancelled; refund not required"),
    ("cancel_subscription", "Cancelled, no further charges will be made"),
    ("reply_to_ticket", "Reply sent. No further action is required."),
    ("book_table", "Booked, no deposit needed"),
    ("delete_row", "deleted, cannot be undone"),
    ("import_row", {"imported": 1, "rejected": []}),
    ("close_issue", {"state": "closed", "labels": []}),
    ("transfer_funds", {"ok": True, "next": []}),
    ("create_entities", []),
    ("think", "Your thought has been logged."),
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


def test_what_was_not_recorded_is_no_answer_of_any_tool() -> None:
    assert not is_answer("search", None)
    assert no_progress("search", None) == []


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
