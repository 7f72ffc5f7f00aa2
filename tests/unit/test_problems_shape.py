"""Errors that differ in numbers, ids and values only have one shape; others keep theirs."""

import random
import uuid

import pytest
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.problem import ProblemKey, problem_of_failure, problem_of_finding
from agenteval_collector.model.problem_shape import MAX_SHAPE, shape_of
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.finding import FindingKind


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        ("", ""),
        ("KeyError: 'order_id'", "KeyError: '…'"),
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
        ("GET https://api.example.com/v1/orders/A-1?x=1", "GET …"),
        ('File "/app/tools.py", line 42, in refund', 'File "…", line …, in refund'),
        ("read ECONNRESET", "read ECONNRESET"),
        ("the city of LIMA is unknown", "the city of … is unknown"),
        ("changes to src/app/a.py would be lost", "changes to … would be lost"),
        ("no handler for url: /search?q=dogs&page=2 here", "no handler for url: … here"),
        ("wants application/json and/or text/plain", "wants application/json and/or text/plain"),
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


WORDS = ("garden", "alpha", "cargo", "node", "invoice", "rust", "matrix")
CITIES = ("Quito", "Hobart", "New York", "Porto", "São Paulo")
SORTS = (
    "no seats left on {code} from {city} to {other}",
    "Hotel {city} Inn is fully booked for {number} nights",
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://{word}.example.net/{other_word}/{word}",
    "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://{word}.example.net/{other_word}/{word}",
    "sqlite3.OperationalError: no such column: {word}",
    "sqlite3.OperationalError: no such table: {word}",
    "sqlite3.OperationalError: database is locked",
    'sqlite3.OperationalError: near "{word}": syntax error',
    "[Errno 2] No such file or directory: '/data/{word}/{other_word}.csv'",
    "[Errno 13] Permission denied: '/data/{word}/{other_word}.csv'",
    "KeyError: '{word}_id'",
    "AttributeError: '{word}' object has no attribute '{other_word}'",
    "bash: line {number}: {word}: command not found",
    "1 validation error for {model}\n{word}\n  Field required [type=missing, input_value={{'{other_word}': 1}}]",
    "1 validation error for {model}\n{word}\n  Input should be a valid integer [type=int_parsing, input_value='a']",
    "the account of {city} is closed",
    "the account of {city} is frozen",
    "openai.RateLimitError: Error code: 429 - Rate limit reached for gpt-{number}o: Limit {number}, Used {number}",
    "openai.BadRequestError: Error code: 400 - maximum context length is {number} tokens",
)


@pytest.mark.parametrize("seed", range(20))
def test_sentences_have_one_shape_whatever_they_are_about(seed: int) -> None:
    draw = random.Random(seed)

    def made(sort: str) -> str:
        word, other_word = draw.sample(WORDS, 2)
        city, other = draw.sample(CITIES, 2)
        return sort.format(
            word=word,
            other_word=other_word,
            city=city,
            other=other,
            number=draw.randrange(2, 99_999),
            code=f"ZQ{draw.randrange(100, 999)}",
            model=f"{word.title()}Input",
        )

    shapes = [{shape_of(made(sort)) for _ in range(20)} for sort in SORTS]
    assert [len(each) for each in shapes] == [1] * len(SORTS), shapes
    assert len(set().union(*shapes)) == len(SORTS)


def test_the_type_of_an_exception_is_told_from_its_text_or_beside_it() -> None:
    assert shape_of("'order_id'", "builtins.KeyError") == shape_of("KeyError: 'order_id'")
    assert shape_of("boom", "app.ToolError") == "boom"
    assert shape_of("timed out", "ReadTimeout") != shape_of("timed out", "ConnectTimeout")


def test_a_finding_of_severity_info_is_no_problem() -> None:
    assert problem_of_finding(AgentKey("shop", "s"), "value_not_said", "info", "search", {}) is None


def test_ids_tell_problems_apart_that_read_alike() -> None:
    keys = [
        ProblemKey(None, None, "tool_failed", None, ""),
        ProblemKey("", None, "tool_failed", None, ""),
        ProblemKey("tool_failed", None, "", None, ""),
        ProblemKey("a", None, "tool_failed", "b", "c"),
        ProblemKey("a", None, "tool_failed", "bc", ""),
        problem_of_failure(AgentKey("a", None), "task_completion", {}),
    ]
    assert len({key.problem_id for key in keys}) == len(keys)


def test_titles_say_what_happens_and_where() -> None:
    assert ProblemKey("a", None, "tool_failed", "refund", "no order …").title == "refund: no order …"
    assert ProblemKey("a", None, "no_answer", None, "").title == "Answers with an empty text"
    assert problem_of_failure(AgentKey("a", None), "task_completion", {}).title == "Fails task completion"
    no_refund = problem_of_failure(AgentKey("a", None), "task_completion", {"shape": "No refund was made"})
    assert no_refund.title == "Fails task completion: No refund was made"
    assert ProblemKey("a", None, "tool_failed", "refund", "x").overflow.title == "refund: other errors"


@pytest.mark.parametrize("kind", sorted({*FindingKind, *LoopKind}))
def test_each_kind_of_finding_has_a_title_in_words(kind: str) -> None:
    """Where one is left out, users read its name."""
    title = ProblemKey(agent="planner", service=None, kind=kind, tool=None, shape="").title
    assert title != f"Fails {kind.replace('_', ' ')}"
