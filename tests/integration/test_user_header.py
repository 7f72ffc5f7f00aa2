"""An identity proxy names who is logged in: labels and marks are by that person, over HTTP and on the pages."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from agenteval_collector.app.collector import refuse_open_doors
from agenteval_collector.config.settings import ServerConfig
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.serve.api.wire import TOKEN_HEADER, TOKEN_PATH
from pydantic import ValidationError

from tests.support import asking
from tests.support.judged_traces import NAME, REASON
from tests.support.keys import ring_of
from tests.support.memory_queries import (
    GOOD_TRACE,
    KNOWN_PROBLEM,
    MemoryQueries,
    MemoryReports,
    outcome,
    session,
    trace,
    turn,
)
from tests.support.pages import app_of
from tests.support.web_server import serve

KEY = {"Authorization": "Bearer proxy"}
ANN = {**KEY, "X-Forwarded-Email": "ann@example.com"}
MALLORY = "mallory@example.com"


@contextmanager
def behind_a_proxy(reports: MemoryReports, proxies: str = "127.0.0.0/8") -> Iterator[str]:
    queries = MemoryQueries()
    judged = trace(GOOD_TRACE, "s", turn("hi", "ok"), began=0, outcomes=[outcome(NAME, 0.9, REASON)])
    queries.add(session("s", judged, outcomes=[]), judged)
    queries.judged = [GOOD_TRACE]
    made = app_of(queries, reports, ring=ring_of("proxy"), user_header="x-forwarded-email", user_proxies=[proxies])
    with serve(made) as url:
        yield url


def token(url: str) -> str:
    document: dict[str, str] = asking.get(f"{url}{TOKEN_PATH}", headers=KEY).json()
    return document["token"]


def marked(url: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> int:
    answer = asking.post(f"{url}/api/v1/problems/{KNOWN_PROBLEM}/resolve", json=body, headers=headers)
    return answer.status_code


def test_a_mark_is_by_who_is_logged_in_whatever_it_says() -> None:
    reports = MemoryReports()
    with behind_a_proxy(reports) as url:
        marked(url, {**ANN, TOKEN_HEADER: token(url)}, {"author": MALLORY})
    assert reports.marked == [(KNOWN_PROBLEM, "resolved", "ann@example.com")]


def test_a_program_without_the_header_says_who_it_is() -> None:
    reports = MemoryReports()
    with behind_a_proxy(reports) as url:
        marked(url, KEY, {"author": "a script"})
    assert reports.marked == [(KNOWN_PROBLEM, "resolved", "a script")]


def test_the_key_of_a_proxy_does_not_replace_the_token() -> None:
    """The proxy sends its key with any request, also with one that another site causes."""
    reports = MemoryReports()
    with behind_a_proxy(reports) as url:
        assert marked(url, ANN, {}) == 403
    assert reports.marked == []


@pytest.mark.parametrize(
    ("proxies", "headers"),
    [
        pytest.param("10.0.0.0/8", [("X-Forwarded-Email", MALLORY)], id="from elsewhere"),
        pytest.param("127.0.0.0/8", [("X-Forwarded-Email", MALLORY)] * 2, id="twice, of which one may be forged"),
        pytest.param("127.0.0.0/8", [("X-Forwarded-Email", "")], id="without a name"),
    ],
)
def test_a_name_that_is_not_believed(proxies: str, headers: list[tuple[str, str]]) -> None:
    reports = MemoryReports()
    with behind_a_proxy(reports, proxies) as url:
        asking.post(
            f"{url}/api/v1/problems/{KNOWN_PROBLEM}/resolve",
            json={},
            headers=[*KEY.items(), (TOKEN_HEADER, token(url)), *headers],
        )
    assert reports.marked == [(KNOWN_PROBLEM, "resolved", None)]


def test_the_pages_forms_are_by_who_is_logged_in_and_ask_for_no_name() -> None:
    reports = MemoryReports()
    with behind_a_proxy(reports) as url:
        page = asking.get(f"{url}/review?by={MALLORY}", headers=ANN).text
        assert "Your name" not in page
        assert MALLORY not in page
        assert "Your name" in asking.get(f"{url}/review", headers=KEY).text
        form = {"say": "resolved", "by": MALLORY, "token": token(url)}
        asking.post(f"{url}/problems/{KNOWN_PROBLEM}", data=form, headers=ANN)
    assert reports.marked == [(KNOWN_PROBLEM, "resolved", "ann@example.com")]


def test_the_audit_log_names_the_person(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="agenteval_collector.audit")
    with behind_a_proxy(MemoryReports()) as url:
        marked(url, {**ANN, TOKEN_HEADER: token(url)}, {})
    assert re.search(r'"user": "ann@example.com"', caplog.text)


def test_without_keys_the_header_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"server\.keys"):
        refuse_open_doors(ServerConfig(user_header="X-Forwarded-Email"))


@pytest.mark.parametrize("wrong", [{"user_header": "X Forwarded"}, {"user_proxies": ["10.0.0.1/8"]}], ids=str)
def test_a_name_that_is_no_header_and_a_network_that_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ServerConfig.model_validate(wrong)
