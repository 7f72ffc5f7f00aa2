"""The review queue of the web port: what it shows, what it keeps, and what it refuses to write."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from agenteval_collector.model.labels import Label
from agenteval_collector.serve.api.wire import TOKEN_HEADER
from agenteval_collector.serve.api.write_guard import MAX_BODY_BYTES

from tests.support import asking
from tests.support.clock import ManualClock
from tests.support.judged_traces import NAME, REASON, TRACES, hex_id, judge, judged_collector
from tests.support.memory_queries import GOOD_TRACE, NOW, MemoryQueries, MemoryReports, outcome, session, trace, turn
from tests.support.otlp import traces
from tests.support.otlp import turn as span
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.web_server import serve

ATTACK = "<script>window.owned=1</script>\"' onmouseover=x"


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with judged_collector(tmp_path_factory.mktemp("review"), said=ATTACK) as running:
        yield running


@pytest.fixture
def web(collector: RunningCollector) -> str:
    return f"http://{collector.addresses['web']}"


def fields(page: str) -> dict[str, str]:
    """What the form of the page sends, but for the button."""
    form = page.partition('<form class="verdict"')[2].partition("</form>")[0]
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}


def labels(collector: RunningCollector, trace_id: str) -> list[Any]:
    document = collector.get(f"/api/v1/traces/{trace_id}")
    return [(each["name"], each["value"], each["author"], each["note"]) for each in document["labels"]]


def drawn(collector: RunningCollector) -> int:
    """The labels that correct the rate."""
    [rate] = collector.get(f"/api/v1/quality?name={NAME}")["items"]
    return int(rate["labelled"])


def test_a_label_is_kept_as_drawn_and_then_the_judges_word_is_shown(collector: RunningCollector, web: str) -> None:
    before = drawn(collector)
    page = asking.get(f"{web}/review?name={NAME}&by=ann").text
    form = fields(page)
    assert form["trace_id"] == collector.get(f"/api/v1/review/next?name={NAME}")["trace_id"]
    assert asking.get(f"{web}/review?name={NAME}&by=ann").text == page
    assert REASON not in page
    assert "The judge" not in page
    assert "more labels for an interval, about ±" in page
    answer = asking.post(f"{web}/review", data={**form, "value": "fail", "note": "it is\r\nno answer"})
    assert answer.status_code == 303
    assert labels(collector, form["trace_id"]) == [(NAME, 0.0, "ann", "it is\nno answer")]
    assert drawn(collector) == before + 1
    told = asking.get(web + answer.headers["location"]).text
    assert "You said <b>fail</b>" in told
    assert REASON in told
    assert fields(told)["trace_id"] != form["trace_id"]


def test_the_judges_word_is_only_told_to_who_has_labelled_the_trace(collector: RunningCollector, web: str) -> None:
    waiting = collector.get(f"/api/v1/review/next?name={NAME}")["trace_id"]
    for by in ("", "ann", "bob"):
        assert REASON not in asking.get(f"{web}/review?name={NAME}&by={by}&labelled={waiting}").text


def test_what_is_skipped_is_left_aside_until_it_is_asked_for_again(web: str) -> None:
    url, shown = f"{web}/review?name={NAME}", []
    while form := fields(page := asking.get(url).text):
        shown.append(form["trace_id"])
        url = web + unescape(re.findall(r'class="button" href="([^"]*)"', page)[0])
    assert len(shown) == len(set(shown)) <= TRACES
    assert "No trace waits for a label of task completion, but for those that were skipped." in page
    again = re.findall(r'<a href="([^"]*)">Show what was skipped</a>', page)[0]
    assert fields(asking.get(web + unescape(again)).text)["trace_id"] == shown[0]


def test_it_shows_what_was_said_before_in_the_session(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as running:
        for number in (1, 2):
            running.send(traces(span(number, f"Question {number}?", "It was sent.", session="s")))
            running.scored(hex_id(number))
        assert "Nothing to review yet" in running.get("/review")
        judge(running, 2, 0.9)
        before, _, now = running.get("/review").partition("To be judged")
    assert ("Question 1?" in before, "Question 2?" in before) == (True, False)
    assert ("Question 1?" in now, "Question 2?" in now) == (False, True)


def test_hostile_content_is_text_and_only_our_own_script_may_run(web: str) -> None:
    answer = asking.get(f"{web}/review", params={"name": NAME, "by": ATTACK, "agent": "", "version": ""})
    assert "&lt;script&gt;window.owned=1&lt;/script&gt;" in answer.text
    assert re.findall(r"<script[^>]*>", answer.text) == re.findall(
        r'<script src="/(?:page|review).js\?\w+" defer>', answer.text
    )
    assert " onmouseover=x" not in re.sub(r'"[^"]*"|>[^<]*<', "", answer.text)
    policy = answer.headers["content-security-policy"]
    assert policy.endswith("; script-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    script = asking.get(f"{web}/review.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "script-src" not in script.headers["content-security-policy"]


OTHER_SITES = [
    pytest.param({"Origin": "https://evil.example"}, id="another site"),
    pytest.param({"Origin": "null"}, id="a page without an origin"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, id="another site, as the browser says"),
    pytest.param({"Sec-Fetch-Site": "same-site"}, id="another server of this machine, as the browser says"),
]


@pytest.mark.parametrize("headers", OTHER_SITES)
def test_another_site_cannot_write_even_with_the_token(
    collector: RunningCollector, web: str, headers: dict[str, str]
) -> None:
    form = fields(asking.get(f"{web}/review?name={NAME}").text)
    said = {"trace_id": form["trace_id"], "name": NAME, "value": 1.0}
    by_form = asking.post(f"{web}/review", data={**form, "value": "pass"}, headers=headers)
    by_json = asking.post(f"{web}/api/v1/labels", json=said, headers={**headers, TOKEN_HEADER: form["token"]})
    for answer in (by_form, by_json):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
        assert "access-control-allow-origin" not in answer.headers
    assert labels(collector, form["trace_id"]) == []


@pytest.mark.parametrize("token", ["", "wrong", "é" * 43])
def test_without_the_token_nothing_is_written(collector: RunningCollector, web: str, token: str) -> None:
    form = {**fields(asking.get(f"{web}/review?name={NAME}").text), "token": token, "value": "pass"}
    said = {"trace_id": form["trace_id"], "name": NAME, "value": 1.0}
    answers = [
        asking.post(f"{web}/review", data=form),
        asking.post(f"{web}/api/v1/labels", json=said, headers={TOKEN_HEADER.encode(): token.encode("latin-1")}),
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert all("token" in answer.json()["error"]["message"] for answer in answers)
    assert labels(collector, form["trace_id"]) == []


def test_a_name_that_was_pointed_at_this_machine_gets_neither_token_nor_label(web: str) -> None:
    form = fields(asking.get(f"{web}/review?name={NAME}").text)
    evil = {"Host": "evil.example:4319", "Origin": "http://evil.example:4319"}
    assert asking.post(f"{web}/review", data={**form, "value": "pass"}, headers=evil).status_code == 421
    assert form["token"] not in asking.get(f"{web}/review", headers=evil).text


def test_a_program_labels_with_the_token_and_says_itself_whether_the_trace_was_drawn(
    collector: RunningCollector, web: str
) -> None:
    token = {TOKEN_HEADER: asking.get(f"{web}/api/v1/token").json()["token"]}
    before = drawn(collector)
    said = {"trace_id": collector.get(f"/api/v1/review/next?name={NAME}")["trace_id"], "name": NAME, "value": 0.25}
    answer = asking.post(f"{web}/api/v1/labels", json={**said, "author": "bob", "note": "hm"}, headers=token)
    assert answer.status_code == 200
    assert answer.json() == collector.get(f"/api/v1/traces/{said['trace_id']}")
    assert labels(collector, said["trace_id"]) == [(NAME, 0.25, "bob", "hm")]
    assert drawn(collector) == before
    asking.post(f"{web}/api/v1/labels", json={**said, "author": "bob", "drawn": True}, headers=token)
    assert drawn(collector) == before + 1


SAID = {"trace_id": hex_id(1), "name": NAME, "value": 1.0}


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        pytest.param({**SAID, "trace_id": "0" * 32}, 404, "is not known", id="an unknown trace"),
        pytest.param({**SAID, "trace_id": "x"}, 400, "trace_id is 'x'", id="no trace id"),
        pytest.param({**SAID, "name": "task_compl"}, 400, "the trace has argument_corr", id="a misspelt name"),
        pytest.param({**SAID, "value": 1.5}, 400, "value is 1.5", id="a value out of range"),
        pytest.param({**SAID, "value": True}, 400, "value: ", id="a value that is no number"),
        pytest.param({**SAID, "value": float("nan")}, 400, "value is nan", id="not a number"),
        pytest.param({**SAID, "source": "user"}, 400, "source: ", id="a field that is none"),
        pytest.param({**SAID, "author": "a" * 1025}, 400, "author has 1025", id="an author that is too long"),
        pytest.param({**SAID, "note": "n" * 10_001}, 400, "note has 10001", id="a note that is too long"),
        pytest.param({"trace_id": hex_id(1), "name": NAME}, 400, "value: ", id="a field that is missing"),
        pytest.param({"name": NAME, "value": 1.0}, 400, "give either trace_id or session_id", id="no subject"),
        pytest.param({**SAID, "session_id": "s"}, 400, "give either trace_id or session_id", id="two subjects"),
        pytest.param([SAID], 400, "the body: ", id="a list"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(
    collector: RunningCollector, web: str, body: Any, status: int, says: str
) -> None:
    token = {TOKEN_HEADER: asking.get(f"{web}/api/v1/token").json()["token"], "Content-Type": "application/json"}
    before = labels(collector, hex_id(1))
    answer = asking.post(f"{web}/api/v1/labels", content=json.dumps(body), headers=token)
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
    assert labels(collector, hex_id(1)) == before


@pytest.mark.parametrize("path", ["/review", "/api/v1/labels"])
def test_bodies_are_bounded_and_of_one_type(web: str, path: str) -> None:
    media = {"/review": "application/x-www-form-urlencoded", "/api/v1/labels": "application/json"}[path]
    token = asking.get(f"{web}/api/v1/token").json()["token"]

    def post(body: bytes, content_type: str | None = media) -> tuple[int, str]:
        headers = {TOKEN_HEADER: token, **({"Content-Type": content_type} if content_type else {})}
        answer = asking.post(web + path, content=body, headers=headers)
        return answer.status_code, answer.json()["error"]["code"]

    assert post(b"x" * (MAX_BODY_BYTES + 1)) == (413, "too_large")
    for other in ("text/plain", "multipart/form-data; boundary=x", None):
        assert post(b"{}", other) == (415, "unsupported_media_type")
    assert post(b"\xff{") == (400, "invalid_argument")
    assert post(b"&".join(b"a=1" for _ in range(21))) == (400, "invalid_argument")
    assert asking.put(web + path).status_code == 405


def test_a_form_that_is_refused_says_why_on_a_page(web: str) -> None:
    html = {"Accept": "text/html"}
    form = fields(asking.get(f"{web}/review?name={NAME}").text)
    old = asking.post(f"{web}/review", data={**form, "value": "pass", "token": "old"}, headers=html)
    assert (old.status_code, "open the page again" in old.text) == (403, True)
    undecided = asking.post(f"{web}/review", data=form, headers=html)
    assert (undecided.status_code, "value is absent" in undecided.text) == (400, True)
    assert asking.get(f"{web}/review?skip=x", headers=html).status_code == 400


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    server = {"keys": ["secret"], "web_address": "0.0.0.0:0", "insecure": True}
    with RunningCollector(tmp_path_factory.mktemp("keyed"), server=server) as running:
        yield running


def test_with_keys_a_collector_on_the_network_is_written_to_by_who_may_read_it(keyed: RunningCollector) -> None:
    web = f"http://127.0.0.1:{keyed.addresses['web'].rpartition(':')[2]}"
    basic = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}
    bearer = {"Authorization": "Bearer secret"}
    named = {"Host": "evals.example", "Origin": "https://evals.example"}
    assert asking.get(f"{web}/review").status_code == 401
    token = {TOKEN_HEADER: asking.get(f"{web}/api/v1/token", headers=basic).json()["token"]}

    def post(*headers: dict[str, str]) -> int:
        merged = {name: value for each in headers for name, value in each.items()}
        return asking.post(f"{web}/api/v1/labels", json={**SAID, "trace_id": "0" * 32}, headers=merged).status_code

    assert post(named, token) == 401
    assert post(named, {"Authorization": "Bearer wrong"}, token) == 401
    # A browser sends this for every site.
    assert post(named, basic) == 403
    assert post(named, bearer, {"Origin": "https://evil.example"}) == 403
    # It got as far as the trace, which is not known.
    assert post(named, basic, token) == post(named, bearer) == post(bearer) == 404


def reviewed(reports: MemoryReports, **options: Any) -> Any:
    queries = MemoryQueries()
    judged = trace(GOOD_TRACE, "s", turn("hi", "ok"), began=0, outcomes=[outcome(NAME, 0.9, REASON)])
    queries.add(session("s", judged, outcomes=[]), judged)
    queries.judged = [GOOD_TRACE]
    about = {"metrics": lambda: (b"", "text/plain"), "health": lambda: None, "clock": ManualClock(NOW)}
    return app_of(queries, reports, **{**about, **options})


def test_beyond_loopback_without_keys_only_an_address_may_be_written_to() -> None:
    reports = MemoryReports()
    with serve(reviewed(reports, loopback=False)) as url:
        form = {**fields(asking.get(f"{url}/review").text), "value": "pass"}
        for host, status in (("evals.example", 403), ("10.0.0.7:4319", 303), ("localhost:4319", 303)):
            headers = {"Host": host, "Origin": f"http://{host}"}
            assert asking.post(f"{url}/review", data=form, headers=headers).status_code == status
    assert reports.labels == [Label(trace_id=GOOD_TRACE, name=NAME, value=1.0, drawn=True)] * 2


class Stuck(MemoryReports):
    """Keeps a label only once `released`."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def label(self, label: Label) -> None:
        self.released.wait(30)
        super().label(label)


def test_a_store_that_hangs_costs_who_writes_an_error_and_readers_nothing() -> None:
    reports = Stuck()
    with serve(reviewed(reports, query_timeout=0.1)) as url:
        form = {**fields(asking.get(f"{url}/review").text), "value": "pass"}
        answer = asking.post(f"{url}/review", content=urlencode(form), headers={"Content-Type": FORM})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert asking.get(f"{url}/review").status_code == 200
        reports.released.set()


FORM = "application/x-www-form-urlencoded"
