"""The review queue in a real browser, on a real collector: keys, buttons, and pages of other sites."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.support.browser import Tab
from tests.support.judged_traces import NAME, REASON, judged_collector
from tests.support.keys import ring_of
from tests.support.memory_queries import MemoryReports, outcome, trace, turn
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.travel_agent import travel_agent
from tests.support.web_server import serve

pytestmark = pytest.mark.slow

SEND = "document.forms[0].submit()"
HOSTILE = "<script>window.owned=1</script><img src=x onerror='window.owned=1'><form action='/review' method=post>"


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with judged_collector(tmp_path_factory.mktemp("review"), said=HOSTILE) as running:
        yield running


@pytest.fixture
def trace_id(tab: Tab, collector: RunningCollector) -> str:
    """The trace that the page in the tab shows."""
    tab.open(f"http://{collector.addresses['web']}/review?name={NAME}&by=ann")
    return shown(tab)


def shown(tab: Tab) -> str:
    return str(tab.evaluate("document.querySelector('.verdict [name=trace_id]').value"))


def press(tab: Tab, key: str) -> None:
    """Press a key that leads to another page."""
    tab.events.clear()
    tab.press(key)
    tab.wait_for("Page.loadEventFired")


def labels(collector: RunningCollector, trace_id: str) -> list[Any]:
    document = collector.get(f"/api/v1/traces/{trace_id}")
    return [(each["value"], each["author"], each["note"]) for each in document["labels"]]


@pytest.mark.parametrize(("key", "value"), [("f", 0.0), ("p", 1.0)])
def test_a_key_labels_the_trace_and_shows_the_next(
    tab: Tab, collector: RunningCollector, trace_id: str, key: str, value: float
) -> None:
    assert tab.evaluate(f"document.body.innerText.includes('{REASON}')") is False
    press(tab, key)
    assert labels(collector, trace_id) == [(value, "ann", None)]
    assert shown(tab) not in ("", trace_id)
    told = tab.evaluate("document.querySelector('.told').innerText")
    assert told.startswith(f"You said {'pass' if value else 'fail'}.")
    assert REASON in told
    assert tab.evaluate("window.owned") is None
    assert [event["entry"]["text"] for event in tab.seen("Log.entryAdded")] == []


def test_skipping_leaves_the_trace_without_a_label(tab: Tab, collector: RunningCollector, trace_id: str) -> None:
    press(tab, "s")
    assert shown(tab) != trace_id
    assert labels(collector, trace_id) == []


def test_in_the_note_keys_are_letters(tab: Tab, collector: RunningCollector, trace_id: str) -> None:
    for key in ("n", "p", "f", "s"):
        tab.press(key)
    assert tab.evaluate("document.getElementById('note').value") == "pfs"
    assert shown(tab) == trace_id
    tab.press("Escape")
    press(tab, "f")
    assert labels(collector, trace_id) == [(0.0, "ann", "pfs")]


def test_keys_are_only_told_where_they_work(tab: Tab, collector: RunningCollector, trace_id: str) -> None:
    hidden = "document.querySelectorAll('kbd[hidden]').length"
    assert tab.evaluate(hidden) == 0
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(f"http://{collector.addresses['web']}/review?name={NAME}&by=ann")
        assert tab.evaluate(hidden) == 4
        tab.events.clear()
        tab.evaluate("document.querySelector('[value=pass]').click()")
        tab.wait_for("Page.loadEventFired")
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)
    assert labels(collector, trace_id) == [(1.0, "ann", None)]


def test_a_page_of_another_server_cannot_label(tab: Tab, collector: RunningCollector, trace_id: str) -> None:
    """Not even one that has stolen the token."""
    web = f"http://{collector.addresses['web']}"
    token = tab.evaluate("document.querySelector('[name=token]').value")

    async def page(request: Request) -> Response:
        fields = {"token": token, "trace_id": trace_id, "name": NAME, "value": "pass"}
        inputs = "".join(f"<input name={name} value={value}>" for name, value in fields.items())
        return HTMLResponse(f"<form method=post action={web}/review>{inputs}</form><script>{SEND}</script>")

    def statuses() -> list[int]:
        """Those of the answers to what the page sends."""
        answers = [each["response"] for each in tab.seen("Network.responseReceived")]
        return [each["status"] for each in answers if each["url"] == f"{web}/review"]

    with serve(Starlette(routes=[Route("/", page)])) as other:
        tab.open(other)
        while not statuses():
            tab.evaluate("1")
        assert statuses() == [403]
    assert labels(collector, trace_id) == []


def test_with_keys_the_browser_asks_for_one_and_then_labels(tab: Tab) -> None:
    queries, reports = travel_agent(), MemoryReports()
    for judged in ("0" * 32, "1" * 32):
        queries.all_traces[judged] = trace(judged, None, turn("hi", "ok"), began=0, outcomes=[outcome(NAME, 0.9, "")])
    queries.judged = list(queries.all_traces)[-2:]
    app = app_of(queries, reports, ring=ring_of("secret"), loopback=False)
    with serve(app) as url:
        tab.open(url.replace("//", "//ann:secret@") + "/review")
        press(tab, "p")
        press(tab, "s")
        press(tab, "f")
    assert [(each.trace_id, each.value, each.drawn) for each in reports.labels] == [
        ("0" * 32, 1.0, True),
        ("1" * 32, 0.0, True),
    ]
