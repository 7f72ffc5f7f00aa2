"""The web port, over a real socket."""

import base64
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.serve.api.trace_documents import SessionDocument, TraceDocument
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.internal.text import storable
from tests.support import asking
from tests.support.clock import ManualClock
from tests.support.inputs import inputs
from tests.support.keys import ring_of
from tests.support.memory_queries import (
    GOOD_TRACE,
    NOW,
    MemoryQueries,
    MemoryReports,
    agreement,
    call,
    exchange,
    outcome,
    session,
    trace,
    turn,
)
from tests.support.pages import app_of
from tests.support.travel_agent import LOOP_TRACES, SILENT_TRACE, travel_agent
from tests.support.web_server import serve


def app(queries: MemoryQueries, **options: Any) -> Any:
    options = {
        "metrics": lambda _accept: (b"# HELP up up\n", "text/plain; version=0.0.4; charset=utf-8"),
        "health": lambda: None,
        "clock": ManualClock(NOW),
        **options,
    }
    return app_of(queries, MemoryReports(), **options)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(app(travel_agent())) as url:
        yield url


def error_of(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["message"]
    return response.status_code, body["error"]["code"]


def test_what_the_judge_was_asked_and_how_people_agree() -> None:
    queries = travel_agent()
    queries.asked[GOOD_TRACE] = [exchange()]
    queries.agreements = [agreement("confidence", 20), agreement("task_completion", 8)]
    with serve(app(queries)) as url:
        asked = asking.get(f"{url}/api/v1/traces/{GOOD_TRACE.upper()}/judgements")
        silent = asking.get(f"{url}/api/v1/traces/{SILENT_TRACE}/judgements")
        unknown = asking.get(f"{url}/api/v1/traces/{'0' * 32}/judgements")
        everything = asking.get(f"{url}/api/v1/agreement?name=")
        one = asking.get(f"{url}/api/v1/agreement", params={"name": "task_completion"})
    assert asked.json() == {"items": [exchange()], "next_cursor": None}
    assert silent.json() == {"items": [], "next_cursor": None}
    assert error_of(unknown) == (404, "not_found")
    assert everything.json() == {"items": queries.agreements, "next_cursor": None}
    assert one.json()["items"] == queries.agreements[1:]


def test_a_trace_is_the_document_of_the_store(url: str) -> None:
    response = asking.get(f"{url}/api/v1/traces/{GOOD_TRACE}")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == travel_agent().trace(GOOD_TRACE)


def test_a_trace_id_may_be_in_upper_case(url: str) -> None:
    assert asking.get(f"{url}/api/v1/traces/{GOOD_TRACE.upper()}").json()["trace_id"] == GOOD_TRACE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(f"/api/v1/traces/{'0' * 32}", (404, "not_found"), id="a trace that nobody sent"),
        pytest.param("/api/v1/traces/12", (400, "invalid_argument"), id="a trace id that is too short"),
        pytest.param(f"/api/v1/traces/{'g' * 32}", (400, "invalid_argument"), id="a trace id that is not hexadecimal"),
        pytest.param(f"/api/v1/traces/{'٣' * 32}", (400, "invalid_argument"), id="digits of another script"),
        pytest.param("/api/v1/sessions/nobody", (404, "not_found"), id="a session that nobody began"),
        pytest.param("/api/v1/sessions/", (404, "not_found"), id="an empty session id"),
        pytest.param("/api/v1/sessions?limit=0", (400, "invalid_argument"), id="a limit below the range"),
        pytest.param("/api/v1/sessions?limit=501", (400, "invalid_argument"), id="a limit above the range"),
        pytest.param("/api/v1/sessions?limit=ten", (400, "invalid_argument"), id="a limit that is not a number"),
        pytest.param("/api/v1/sessions?limit=", (400, "invalid_argument"), id="a limit that is empty"),
        pytest.param("/api/v1/sessions?finding=cylce", (400, "invalid_argument"), id="a kind of finding that is none"),
        pytest.param("/api/v1/sessions?below=coherence", (400, "invalid_argument"), id="a bound that is none"),
        pytest.param("/api/v1/sessions?order=best", (400, "invalid_argument"), id="an order that is none"),
        pytest.param("/api/v1/sessions?since=today", (400, "invalid_argument"), id="a time that is none"),
        pytest.param("/sessions?order=best", (400, "invalid_argument"), id="an order of the page that is none"),
        pytest.param("/api/v1/sessions?cursor=%27--", (400, "invalid_argument"), id="a cursor that is none of ours"),
        *(
            pytest.param(f"/api/v1/{path}?agnet=x", (400, "invalid_argument"), id=f"a misspelt parameter of {path}")
            for path in (
                "sessions",
                "sessions/s-42",
                f"traces/{GOOD_TRACE}",
                f"traces/{GOOD_TRACE}/judgements",
                "agreement",
                "reliability",
                "reliability/comparison",
            )
        ),
        pytest.param("/api/v1/nothing", (404, "not_found"), id="a route that does not exist"),
        pytest.param("/nothing", (404, "not_found"), id="an address beside the API"),
    ],
)
def test_errors_have_the_shape_of_the_contract(url: str, path: str, expected: tuple[int, str]) -> None:
    assert error_of(asking.get(url + path)) == expected


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path", [f"/api/v1/traces/{GOOD_TRACE}", "/api/v1/sessions", "/api/v1/sessions/s-42", "/", "/metrics"]
)
def test_the_api_is_read_only(url: str, method: str, path: str) -> None:
    response = httpx.request(method, url + path)
    assert error_of(response) == (405, "method_not_allowed")
    assert "GET" in response.headers["allow"]


def test_the_hit_rate_of_an_agent_comes_with_its_sessions(url: str) -> None:
    assert "hit_rate" not in asking.get(f"{url}/api/v1/sessions").json()
    assert asking.get(f"{url}/api/v1/sessions?agent=travel_agent").json()["hit_rate"] is None


def test_sessions_are_listed_newest_first_and_page_by_page(url: str) -> None:
    seen, cursor = [], None
    while True:
        page = asking.get(
            f"{url}/api/v1/sessions", params={"limit": 2, **({"cursor": cursor} if cursor else {})}
        ).json()
        assert set(page) == {"items", "next_cursor"}
        seen += [item["session_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ["s-43", "refund-1187", "s-42", "booking/2026-03/αθήνα", SILENT_TRACE]


def test_sessions_can_be_those_of_one_agent(url: str) -> None:
    items = asking.get(f"{url}/api/v1/sessions", params={"agent": "flight_search"}).json()["items"]
    assert [item["session_id"] for item in items] == [SILENT_TRACE]
    assert items[0]["trace_count"] == 1


@settings(max_examples=inputs(1.5))
@given(session_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(lambda s: s not in (".", "..")))
def test_any_session_id_can_be_asked_for(echo_url: str, session_id: str) -> None:
    response = asking.get(f"{echo_url}/api/v1/sessions/{quote(session_id, safe='')}")
    assert response.status_code == 200
    assert response.json() == {"session_id": storable(session_id)}


class Echo(MemoryQueries):
    """Knows every session."""

    def session(self, session_id: str) -> SessionDocument:
        return cast("SessionDocument", {"session_id": session_id})


@pytest.fixture(scope="module")
def echo_url() -> Iterator[str]:
    with serve(app(Echo())) as url:
        yield url


def test_content_that_is_not_text_or_no_number_is_still_answered() -> None:
    queries = MemoryQueries()
    odd = trace(GOOD_TRACE, "s", turn("\ud800 \x9b31m", "ok"), began=0)
    odd["tools_called"] = [call("t", {"x": float("nan")}, [float("inf")])]
    queries.add(session("s", odd, outcomes=[]), odd)
    with serve(app(queries)) as url:
        response = asking.get(f"{url}/api/v1/traces/{GOOD_TRACE}")
        page = asking.get(f"{url}/traces/{GOOD_TRACE}")
    assert response.text.isascii()
    assert response.json()["input"] == "\ud800 \x9b31m"
    assert response.json()["tools_called"][0]["arguments"] == {"x": "nan"}
    assert page.status_code == 200


def test_metrics_are_what_the_exporter_gives(url: str) -> None:
    response = asking.get(f"{url}/metrics")
    assert response.content == b"# HELP up up\n"
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(("asked", "told"), [("gzip", "gzip"), ("identity", None)])
def test_metrics_are_compressed_for_a_scraper_that_takes_that(asked: str, told: str | None) -> None:
    page = b"up 1\n" * 1000
    with serve(app(travel_agent(), metrics=lambda _accept: (page, "text/plain"))) as url:
        response = asking.get(f"{url}/metrics", headers={"Accept-Encoding": asked})
    assert response.content == page
    assert response.headers.get("content-encoding") == told


def test_it_is_healthy_at_once_and_ready_when_told() -> None:
    troubles = ["the log is held up: the disk is full"]
    with serve(app(MemoryQueries(), health=lambda: troubles[0] if troubles else None)) as url:
        assert asking.get(f"{url}/healthz").status_code == 200
        refusal = asking.get(f"{url}/readyz")
        assert error_of(refusal) == (503, "unavailable")
        assert "the disk is full" in refusal.text
        troubles.clear()
        assert asking.get(f"{url}/readyz").status_code == 200


def test_strangers_are_not_told_why_it_is_not_ready() -> None:
    ring = ring_of({"name": "shop", "key": "secret"})
    with serve(app(MemoryQueries(), health=lambda: "row 7 says 'card 4111'", ring=ring)) as url:
        refusal = asking.get(f"{url}/readyz")
        assert error_of(refusal) == (503, "unavailable")
        assert "4111" not in refusal.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:4319", 200, id="this machine by address"),
        pytest.param("localhost", 200, id="this machine by name"),
        pytest.param("[::1]:4319", 200, id="this machine by IPv6"),
        pytest.param("LOCALHOST:1", 200, id="names have no case"),
        pytest.param("evil.example:4319", 421, id="a name that was pointed at this machine"),
        pytest.param("localhost.evil.example", 421, id="a name that only begins like ours"),
        pytest.param("127.0.0.1.evil.example", 421, id="a name that begins like an address"),
        pytest.param("10.0.0.7", 421, id="another machine's address"),
        pytest.param("", 421, id="nobody"),
    ],
)
def test_a_loopback_port_answers_only_to_names_of_this_machine(url: str, host: str, status: int) -> None:
    response = asking.get(f"{url}/api/v1/sessions", headers={"Host": host})
    assert response.status_code == status
    if status != 200:
        assert error_of(response) == (421, "misdirected")


def test_two_host_headers_are_never_answered(url: str) -> None:
    address = url.removeprefix("http://")
    name, port = address.split(":")
    with socket.create_connection((name, int(port)), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert connection.recv(64).startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))


def test_a_port_for_other_machines_answers_to_any_name() -> None:
    with serve(app(travel_agent(), loopback=False)) as url:
        assert asking.get(f"{url}/api/v1/sessions", headers={"Host": "evals.example"}).status_code == 200


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        pytest.param("Bearer first", 200, id="a key"),
        pytest.param("bearer zweiter-schlüssel", 200, id="another key, in the wire's own encoding"),
        pytest.param(basic("first"), 200, id="a key as a browser sends it"),
        pytest.param("Bearer firs", 401, id="the beginning of a key"),
        pytest.param("Bearer", 401, id="no key"),
        pytest.param("first", 401, id="a key without a scheme"),
        pytest.param("Basic !!", 401, id="a password that is not base64"),
        pytest.param(basic(""), 401, id="an empty password"),
        pytest.param(None, 401, id="nothing"),
    ],
)
def test_keys_open_everything_but_the_probes(keyed_url: str, authorization: str | None, status: int) -> None:
    headers: Any = {} if authorization is None else {"Authorization": authorization.encode()}
    for path in ("/api/v1/sessions", "/", "/metrics", "/style.css"):
        response = asking.get(keyed_url + path, headers=headers)
        assert response.status_code == status
        if status == 401:
            assert error_of(response) == (401, "unauthenticated")
            assert "Bearer" in response.headers["www-authenticate"]
    assert asking.get(f"{keyed_url}/healthz").status_code == 200
    assert asking.get(f"{keyed_url}/readyz").status_code == 200


@pytest.fixture(scope="module")
def keyed_url() -> Iterator[str]:
    with serve(app(travel_agent(), ring=ring_of("first", "zweiter-schlüssel"))) as url:
        yield url


@pytest.mark.parametrize("path", ["/api/v1/sessions", "/nothing", "/api/v1/traces/1", "/metrics"])
def test_every_answer_tells_browsers_to_be_careful(url: str, path: str) -> None:
    response = asking.get(url + path, headers={"Origin": "https://evil.example"})
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in response.headers


class Stuck(MemoryQueries):
    """Answers about traces only once `released`."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def trace(self, trace_id: str) -> TraceDocument | None:
        self.released.wait(30)
        return None


def test_a_store_that_hangs_costs_its_readers_an_error_and_nobody_else_anything() -> None:
    queries = Stuck()
    application = app(queries, query_timeout=0.05)
    with serve(application) as url:
        answers = [asking.get_once(f"{url}/api/v1/traces/{GOOD_TRACE}") for _ in range(3)]
        assert [error_of(answer) for answer in answers] == [(503, "unavailable")] * 3
        assert answers[0].headers["retry-after"] == "1"
        assert asking.get(f"{url}/api/v1/sessions").status_code == 200
        assert asking.get(f"{url}/metrics").status_code == 200
        queries.released.set()
    assert application.state.threads.reads.timed_out == 3


class Failing(MemoryQueries):
    """Fails in the two ways a store can."""

    def trace(self, trace_id: str) -> TraceDocument | None:
        raise Unavailable("the disk is full", retry_after=2.5)

    def session(self, session_id: str) -> SessionDocument | None:
        raise RuntimeError("secret detail")


def test_failures_say_whether_to_come_back_and_keep_details_to_the_log() -> None:
    with serve(app(Failing())) as url:
        unavailable = asking.get(f"{url}/api/v1/traces/{GOOD_TRACE}")
        broken = asking.get(f"{url}/api/v1/sessions/s")
        page = asking.get(f"{url}/sessions/s", headers={"Accept": "text/html"})
    assert error_of(unavailable) == (503, "unavailable")
    assert unavailable.headers["retry-after"] == "3"
    assert error_of(broken) == (500, "internal")
    for response in (broken, page):
        assert "secret" not in response.text
        assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        pytest.param("/", 200, "refund-1187", id="sessions"),
        pytest.param("/sessions?agent=nobody", 200, "Asked for: agent “nobody”.", id="no sessions of an agent"),
        pytest.param("/sessions/booking%2F2026-03%2F%CE%B1%CE%B8%CE%AE%CE%BD%CE%B1", 200, "αθήνα", id="a session"),
        pytest.param("/sessions/refund-1187?older_than=3", 200, "#2", id="older traces of a session"),
        pytest.param(f"/traces/{LOOP_TRACES[1]}", 200, "word for word", id="a trace"),
        pytest.param("/sessions/nobody", 404, "not known", id="an unknown session"),
        pytest.param("/traces/12", 400, "not 32 hexadecimal", id="a trace id that is none"),
        pytest.param("/sessions/refund-1187?older_than=x", 400, "not the number of a trace", id="no trace number"),
        pytest.param("/sessions?cursor=x", 400, "cursor", id="a cursor that is none of ours"),
        pytest.param("/nothing", 404, "there is nothing", id="an unknown page"),
    ],
)
def test_browsers_get_pages(url: str, path: str, status: int, says: str) -> None:
    response = asking.get(url + path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert response.status_code == status
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert says in response.text


def test_an_empty_collector_says_how_to_attach_an_agent() -> None:
    with serve(app(MemoryQueries(), grpc_endpoint="http://127.0.0.1:9317")) as url:
        page = asking.get(url).text
    assert "AGENTEVAL_ENDPOINT=http://127.0.0.1:9317 agenteval run -- python app.py" in page


def test_long_sessions_come_in_pages_of_traces() -> None:
    traces = [trace(f"{number:032x}", "long", turn("q", "a"), began=number) for number in range(1, 121)]
    queries = MemoryQueries()
    queries.add(session("long", *traces, outcomes=[outcome("agent_reliability", 1.0, "")]), *traces)
    shown: list[int] = []
    with serve(app(queries)) as url:
        path = "/sessions/long"
        while path:
            page = asking.get(url + path).text
            shown += [number for number in range(120, 0, -1) if f">#{number}<" in page]
            path = page.partition('href="/sessions/long?older_than=')[2].partition('"')[0]
            path = f"/sessions/long?older_than={path}" if path else ""
    assert shown == list(range(120, 0, -1))
