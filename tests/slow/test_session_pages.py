"""The pages of sessions and traces in a real browser: spans, folded lines, long sessions; by keyboard, on a phone."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.slow.test_page import ATTACK, CONTRAST, LONG
from tests.support.assembled import assembled
from tests.support.browser import Tab
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.memory_queries import (
    NOW,
    MemoryQueries,
    finding,
    found,
    outcome,
    session,
    trace,
    turn,
)
from tests.support.otlp import span, span_id, trace_id
from tests.support.pages import app_of
from tests.support.web_server import serve

pytestmark = pytest.mark.slow

ODD, HUGE, MEMBER = (trace_id(number).hex() for number in (1, 2, 3))
TOOL = span_id(3).hex()
UNNAMED = 4


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    queries = MemoryQueries()
    add_odd(queries)
    huge = trace(HUGE, "huge", turn("go", "done"), began=0)
    queries.add(session("huge", huge, outcomes=[]), huge)
    queries.assembled[HUGE] = assembled(*(span(2, number, parent=number // 3) for number in range(1, 3001)))
    add_long(queries)
    for number in range(UNNAMED):
        name = f"{number + 100:032x}"
        single = trace(name, None, turn("hi", "ok"), began=20 + number)
        queries.add(session(name, single, outcomes=[], **found()), single)
    app = app_of(queries, clock=ManualClock(NOW))
    with serve(app) as url:
        yield url


def add_odd(queries: MemoryQueries) -> None:
    """A session and a trace whose spans attack, and are of very long words."""
    about = [finding(ATTACK, "error", span_id=TOOL, reason=ATTACK, tool=ATTACK, trace_id=ODD)]
    odd = trace(ODD, ATTACK, turn(ATTACK, LONG, error=ATTACK), began=0, findings=about)
    queries.add(session(ATTACK, odd, outcomes=[outcome("agent_reliability", 0.3, ATTACK)], findings=about), odd)
    said = f'[{{"role": "user", "parts": [{{"type": "text", "content": "{LONG}"}}]}}]'
    called: dict[str, Any] = {"gen_ai__tool__call__arguments": ATTACK, "gen_ai__tool__call__result": LONG}
    spans = [
        span(1, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=ATTACK),
        span(1, 2, parent=1, gen_ai__request__model=ATTACK, gen_ai__input__messages=said),
        span(1, 3, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name=ATTACK, odd=ATTACK, **called),
    ]
    for each in spans:
        each.name = f"{ATTACK} {LONG}"
    queries.assembled[ODD] = assembled(*spans)


def add_long(queries: MemoryQueries) -> None:
    """A session of 120 traces, with a pause of an hour in the middle of the last fifty."""
    members = [
        trace(f"{number + 1000:032x}", "long", turn(f"question {number}", "answer"), began=number * 4 + pause)
        for number, pause in enumerate([0] * 95 + [3600] * 25)
    ]
    queries.add(session("long", *members, outcomes=[]), *members)


PATHS = [
    pytest.param("/", id="the first view"),
    pytest.param("/sessions", id="sessions"),
    pytest.param("/sessions?order=newest", id="sessions beside the form"),
    pytest.param("/sessions/long", id="a long session"),
    pytest.param(f"/sessions/{quote(ATTACK, safe='')}", id="a session that attacks"),
    pytest.param(f"/traces/{ODD}", id="spans that attack"),
    pytest.param(f"/traces/{ODD}?span={TOOL}", id="a span that attacks"),
    pytest.param(f"/traces/{ODD}?span={span_id(2).hex()}", id="a model call of very long words"),
    pytest.param(f"/traces/{HUGE}", id="three thousand spans"),
    pytest.param(f"/traces/{HUGE}?below={span_id(1).hex()}&span={span_id(9).hex()}", id="some of them"),
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_recorded_runs_and_nothing_is_wider_than_the_window(tab: Tab, url: str, path: str) -> None:
    for width in (320, 390, 1080, 1280):
        tab.resize(width)
        tab.open(url + path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate("window.owned") is None
    assert tab.evaluate("document.querySelector('main').innerText.length") > 0
    # A refused style or script would be logged here.
    assert [event["entry"]["text"] for event in tab.seen("Log.entryAdded")] == []
    requests = [event["request"]["url"] for event in tab.seen("Network.requestWillBeSent")]
    assert [requested for requested in requests if not requested.startswith(url)] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_text_can_be_read_on_its_ground(tab: Tab, url: str, path: str, scheme: str) -> None:
    tab.resize(1280)
    tab.prefer(scheme)
    tab.open(url + path)
    ratio, element = tab.evaluate(CONTRAST)
    # WCAG 2.2, criterion 1.4.3 (AA).
    assert ratio >= 4.5, element


def follow(tab: Tab, selector: str) -> None:
    """Open a link by keyboard, and wait for the page behind it."""
    tab.events.clear()
    tab.evaluate(f"document.querySelector({selector!r}).focus()")
    enter(tab)
    tab.wait_for("Page.loadEventFired")


def enter(tab: Tab) -> None:
    key: dict[str, Any] = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
    tab.send("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
    tab.send("Input.dispatchKeyEvent", type="keyUp", **key)


def test_a_span_is_opened_and_closed_by_keyboard(tab: Tab, url: str) -> None:
    tab.open(f"{url}/traces/{ODD}")
    assert tab.evaluate("document.querySelector('.panel')") is None
    assert "error" in tab.evaluate(f"document.querySelector('#span-{TOOL} .severity').className")
    follow(tab, f"#span-{TOOL} a")
    panel = tab.evaluate("document.querySelector('.panel').innerText")
    assert ATTACK in panel
    assert LONG in panel
    # The browser goes to it, a moment after all is loaded, by whole pixels.
    top = f"document.querySelector('#span-{TOOL}').getBoundingClientRect().top"
    eventually(lambda: -1 < tab.evaluate(top) < 900)
    follow(tab, ".panel .head a")
    assert tab.evaluate("document.querySelector('.panel')") is None


def test_spans_are_folded_by_keyboard(tab: Tab, url: str) -> None:
    tab.open(f"{url}/traces/{ODD}")
    hidden = f"!document.querySelector('#span-{TOOL}').checkVisibility()"
    assert tab.evaluate(hidden) is False
    tab.evaluate("document.querySelector('.waterfall summary').focus()")
    enter(tab)
    eventually(lambda: tab.evaluate(hidden))


def test_spans_that_are_left_out_can_be_reached(tab: Tab, url: str) -> None:
    tab.open(f"{url}/traces/{HUGE}")
    shown = tab.evaluate("document.querySelectorAll('.waterfall .row:not(.axis)').length")
    assert shown <= 250
    follow(tab, ".hidden a")
    assert "Whole trace" in tab.evaluate("document.querySelector('.around').innerText")
    others = tab.evaluate("[...document.querySelectorAll('.waterfall .row[id]')].map(e => e.id)")
    assert len(others) > 1


def test_sessions_of_one_trace_are_folded_and_open_by_keyboard(tab: Tab, url: str) -> None:
    tab.open(f"{url}/sessions")
    line = "document.querySelector('tr.fold')"
    assert f"{UNNAMED} sessions of one trace" in tab.evaluate(f"{line}.innerText")
    first = f"{line}.querySelector('li a').checkVisibility()"
    assert tab.evaluate(first) is False
    tab.evaluate(f"{line}.querySelector('summary').focus()")
    enter(tab)
    eventually(lambda: tab.evaluate(first))


def test_the_address_keeps_what_was_asked_for(tab: Tab, url: str) -> None:
    tab.open(f"{url}/sessions?order=newest")
    tab.events.clear()
    tab.evaluate("document.querySelector('#agent').value = 'nobody'")
    tab.evaluate("document.querySelector('#agent').focus()")
    enter(tab)
    tab.wait_for("Page.loadEventFired")
    assert "agent=nobody" in tab.evaluate("location.search")
    assert tab.evaluate("document.querySelector('#agent').value") == "nobody"
    assert "No such sessions" in tab.evaluate("document.querySelector('main').innerText")


def test_a_long_session_is_shown_in_parts_with_its_pauses(tab: Tab, url: str) -> None:
    tab.open(f"{url}/sessions/long")
    assert tab.evaluate("document.querySelectorAll('.talk .exchange').length") == 50
    assert "1 h 0 min later" in tab.evaluate("document.querySelector('.talk .pause').innerText")
    assert tab.evaluate("document.querySelectorAll('.timeline .bar-of').length") == 50
    follow(tab, ".pager a[rel=next]")
    assert tab.evaluate("document.querySelector('.talk .exchange').id") == "trace-21"
