"""Errors that differ in numbers, ids and values only have one shape; others keep theirs."""

import random
import uuid

import pytest
from agenteval_collector.problems.problem import ProblemKey, problem_of_failure, problem_of_finding
from agenteval_collector.problems.shape import MAX_SHAPE, shape_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        ("", ""),
        ("KeyError: 'order_id'", "KeyError: 'order_id'"),
        ("no order #1234567 for user u_83hs8", "no order #… for user …"),
        ("order 12, 13 and 15 not found", "order … not found"),
        ("request 8c1d2e3f-1234-4abc-9def-0123456789ab failed", "request … failed"),
        ("object at 0x7f2b8c0d5e10", "object at …"),
        ("checksum deadbeefcafe", "checksum …"),
        ("user bob@example.com is unknown", "user … is unknown"),
        ("at 2026-11-22T10:11:12Z:  took\n 1.51s", "at …: took …"),
        ("balance 12.50 EUR < 99,95 EUR", "balance … EUR < … EUR"),
        ("HTTP 500 Internal Server Error", "HTTP 500 Internal Server Error"),
        ("HTTP/1.1 404 Not Found", "HTTP/1.1 404 Not Found"),
        ("status_code=503 from upstream", "status_code=503 from upstream"),
        ("code: 429 - {'message': 'Wait for 1.5s, then try'}", "code: 429 - {'message': 'Wait for …, then try'}"),
        ("'blue shoes' is not of type 'integer'", "'…' is not of type 'integer'"),
        ("GET https://api.example.com/v1/orders/A-1?x=1", "GET https://api.example.com/…/orders/…?x=…"),
        ('File "/app/tools.py", line 42, in refund', 'File "/app/tools.py", line …, in refund'),
        ("订单 12345 不存在", "订单 … 不存在"),
        ("a" * 41, "…"),
    ],
)  # fmt: skip
def test_the_shape_of_an_error(error: str, shape: str) -> None:
    assert shape_of(error) == shape


def test_100_000_errors_with_random_numbers_and_ids_have_one_shape_for_each_sort() -> None:
    draw = random.Random(7)
    sorts = [
        lambda: f"Error: no order {draw.randrange(10**9)} for customer cus_{draw.getrandbits(64):x}9",
        lambda: f"Timeout after {draw.uniform(0, 90):.3f}s (request {uuid.UUID(int=draw.getrandbits(128))})",
        lambda: f"HTTP 500 from host-{draw.randrange(99)}.example.com at {draw.randrange(2**40)}",
        lambda: f"HTTP 503 from host-{draw.randrange(99)}.example.com at {draw.randrange(2**40)}",
    ]
    assert len({shape_of(sorts[number % 4]()) for number in range(100_000)}) == 4


@given(st.text(max_size=3000))
def test_a_shape_is_bounded_on_one_line_and_its_own_shape(error: str) -> None:
    shape = shape_of(error)
    assert len(shape) <= MAX_SHAPE
    assert "\n" not in shape
    assert shape_of(shape) == shape


def test_a_finding_of_severity_info_is_no_problem() -> None:
    assert problem_of_finding("shop", "value_not_said", "info", "search", {}) is None


def test_ids_tell_problems_apart_that_read_alike() -> None:
    keys = [
        ProblemKey(None, "tool_failed", None, ""),
        ProblemKey("", "tool_failed", None, ""),
        ProblemKey("tool_failed", "", None, ""),
        ProblemKey("a", "tool_failed", "b", "c"),
        ProblemKey("a", "tool_failed", "bc", ""),
        problem_of_failure("a", "task_completion"),
    ]
    assert len({key.problem_id for key in keys}) == len(keys)


def test_titles_say_what_happens_and_where() -> None:
    assert ProblemKey("a", "tool_failed", "refund", "no order …").title == "Tool fails: refund: no order …"
    assert ProblemKey("a", "no_answer", None, "").title == "Answers with an empty text"
    assert problem_of_failure("a", "task_completion").title == "Fails task completion"
    assert ProblemKey("a", "tool_failed", "refund", "x").overflow.title == "Tool fails: refund: other errors"
