"""What four calls with different arguments and the same result are: a loop, a doubtful one, or quite right."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.tool_names import tool_name
from otel_agenteval.detectors.tool_results import is_content, lack_in, reports_failure
from otel_agenteval.model import Json

LONG = "The parcel left our hall in Porto on Monday and will be with you in a week, as we have told you before."

NOTHING_CAME_OF_IT: list[tuple[str, Json]] = [
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
    ("get_user", {"user": None, "message": "unknown user"}),
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
    ("query", "x"),
    ("query_database", "0 rows"),
    ("query_database", 7),
    ("fetch", "sold out"),
    ("fetch", "Flight is full"),
    ("query", "incorrect"),
    ("try_password", "wrong password"),
    ("tool", "taken"),
    ("query", "rate limited"),
    ("query", "(0 rows)"),
    ("get_customer", {"found": False}),
    ("get_stock_price", "unknown symbol"),
    ("get_post", "Post not found"),
]

DOUBTFUL: list[tuple[str, Json]] = [
    ("get_policy", LONG),
    ("get_policy", {"text": LONG}),
    ("shell", LONG),
    ("read_log", LONG),
    ("write_file", f"Done. {LONG}"),
    ("write_file", {"status": "ok", "note": LONG}),
]

RIGHT_FOR_MANY: list[tuple[str, Json]] = [
    ("get_user", "There's nobody here. Didn't find any."),
    ("click", "element is not clickable"),
    ("fetch_page", "the same page"),
    ("read_file", "import os"),
    ("poll_job", "pending"),
    ("tool", "same"),
    ("tool", "same result"),
    ("t", {"value": "same"}),
    ("fetch", "same"),
    ("fetch", "HTTP 404"),
    ("fetch", {"status": 404}),
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
    ("audit", "0 vulnerabilities found"),
]


@pytest.mark.parametrize(("tool", "result"), NOTHING_CAME_OF_IT, ids=str)
def test_nothing_found_or_refused_again_and_again_is_an_alarm(tool: str, result: Json) -> None:
    assert told(tool, result) == told(tool, json.dumps(result)) == [(3, True)]


@pytest.mark.parametrize(("tool", "result"), DOUBTFUL, ids=str)
def test_the_same_long_text_may_be_the_right_answer_to_each(tool: str, result: Json) -> None:
    assert told(tool, result) == told(tool, json.dumps(result)) == [(3, False)]


@pytest.mark.parametrize(("tool", "result"), RIGHT_FOR_MANY, ids=str)
def test_a_confirmation_a_verdict_or_a_value_may_be_right_for_many_arguments(tool: str, result: Json) -> None:
    assert told(tool, result) == told(tool, json.dumps(result)) == []


def test_what_was_not_recorded_is_no_result_of_any_tool() -> None:
    assert told("search", None) == []


def told(tool: str, result: Json) -> list[tuple[int, bool]]:
    """Which of six calls, each with other arguments, are told of, and whether as alarms."""
    detectors = Detectors("s-1", "t-1", RuleBook())
    calls = [
        Step(kind=StepKind.TOOL, name=tool, span_id=str(number), arguments={"of": number}, result=result)
        for number in range(6)
    ]
    return [(number, each.is_alarm) for number, call in enumerate(calls) for each in detectors.observe(call)]


@pytest.mark.parametrize(
    ("result", "reports"),
    [
        ("FAILED tests/test_a.py::test_b - assert 1 == 2", True),
        ("2 failed, 10 passed", True),
        ("error TS2322: Type 'string' is not assignable", True),
        ({"exit_code": 1, "stderr": "relation is locked"}, True),
        ({"exit_code": 0, "stdout": "done"}, False),
        ({"errors": [{"line": 3, "text": "unused import"}]}, True),
        ({"errors": [], "files": 2}, False),
        ({"ok": False, "reason": "no street"}, True),
        ({"ok": True}, False),
        ("12 passed, errors: 0", False),
        ("40 passed, 0 failed", False),
        ("No issues found", False),
        ("pending", False),
        (None, False),
    ],
    ids=str,
)
def test_a_check_reports_that_something_fails(result: Json, reports: bool) -> None:
    assert reports_failure(result) is reports
    assert reports_failure(json.dumps(result)) is reports


@given(st.text(), st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists) | st.text('[]{}"\\,'))
def test_any_result_of_any_tool_can_be_looked_at(tool: str, result: Json) -> None:
    lack_in(tool_name(tool), result)
    is_content(tool_name(tool), result)
    reports_failure(result)


def test_what_is_nested_too_deeply_or_long_is_looked_at_too() -> None:
    nested: Json = []
    for _ in range(100_000):
        nested = [nested]
    for result in (nested, "[" * 60_000, "0 " * 1_000_000, {"exit_code": nested}):
        lack_in(tool_name("get"), result)
        is_content(tool_name("get"), result)
        reports_failure(result)
