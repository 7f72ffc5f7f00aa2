"""The page in a real browser: nothing recorded runs, nothing is loaded from elsewhere, nothing overflows."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.browser import Tab
from tests.support.clock import ManualClock
from tests.support.memory_queries import (
    GOOD_TRACE,
    NOW,
    MemoryQueries,
    call,
    finding,
    outcome,
    problem,
    session,
    trace,
    turn,
    unjudged,
)
from tests.support.pages import app_of
from tests.support.travel_agent import LOOP_TRACES, SILENT_TRACE, TOOL_TRACE, travel_agent
from tests.support.web_server import serve

pytestmark = pytest.mark.slow

ATTACK = (
    "<script>window.owned=1</script><img src=x onerror='window.owned=1'><svg onload='window.owned=1'>"
    "\"' onmouseover='window.owned=1' autofocus onfocus='window.owned=1' <iframe srcdoc='<script>top.owned=1</script>'>"
)
HOSTILE_TRACE = "deadbeef" * 4
LONG = "W" * 400


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    queries = travel_agent()
    for trace_id, text in ((HOSTILE_TRACE, ATTACK), ("f" * 32, LONG)):
        odd = trace(
            trace_id,
            text,
            turn(text, text, call(text, {text: text}, text), call("t", text, error=text), error=text),
            began=200,
            agent=text,
            agents=[text],
            service=text,
            user_id=text,
            available_tools=[{"name": text}],
            outcomes=[outcome("coherence", 0.3, text), outcome(text, 0.9, text), *unjudged()],
            findings=[
                finding(text, "error", agent=text, tool=text, reason=text, span_id="0" * 16, trace_id=trace_id),
                finding(text, "info", agent=text, tool=text, reason=text, turn=None, trace_id=trace_id),
            ],
        )
        queries.add(
            session(text, odd, outcomes=[outcome("agent_reliability", 0.3, text)], agent=text, services=[text]), odd
        )
    queries.recurring = [
        problem(text, problem_id=digit * 16, agent=text, tool=text, kind=text, versions={text: 3}, first_version=text)
        for digit, text in (("a", ATTACK), ("f", LONG))
    ]
    queries.judged = [HOSTILE_TRACE, "f" * 32]
    app: Any = server(queries)
    with serve(app) as url:
        yield url


def server(queries: MemoryQueries) -> object:
    return app_of(queries, clock=ManualClock(NOW))


PATHS = [
    pytest.param("/", id="sessions"),
    pytest.param("/sessions?agent=nobody", id="no sessions of an agent"),
    pytest.param("/sessions?agent=travel_agent&user=u-7&order=newest", id="sessions beside the form"),
    pytest.param(f"/sessions?text={quote(ATTACK, safe='')}&user={quote(ATTACK, safe='')}", id="a form that attacks"),
    pytest.param("/sessions/refund-1187", id="a session that repeats itself"),
    pytest.param(f"/traces/{GOOD_TRACE}", id="a trace that went well"),
    pytest.param(f"/traces/{TOOL_TRACE}", id="a trace whose tool failed"),
    pytest.param(f"/traces/{LOOP_TRACES[1]}", id="a trace that repeats another"),
    pytest.param(f"/traces/{SILENT_TRACE}", id="a trace without content"),
    pytest.param(f"/sessions/{quote(ATTACK, safe='')}", id="a session that attacks"),
    pytest.param(f"/traces/{HOSTILE_TRACE}", id="a trace that attacks"),
    pytest.param(f"/sessions/{LONG}", id="a session of very long words"),
    pytest.param(f"/traces/{'f' * 32}", id="a trace of very long words"),
    pytest.param("/review", id="a review of what attacks"),
    pytest.param(f"/review?skip={HOSTILE_TRACE}&by=ann", id="a review of very long words"),
    pytest.param(f"/review?skip={HOSTILE_TRACE},{'f' * 32}", id="a review at its end"),
    pytest.param(f"/review?agent={quote(ATTACK, safe='')}&by={LONG}", id="a review form that attacks"),
    pytest.param("/alarms", id="alarms that attack"),
    pytest.param("/problems", id="problems that attack"),
    pytest.param(f"/problems?agent={quote(ATTACK, safe='')}&version={LONG}", id="a form of problems that attacks"),
    pytest.param(f"/problems/{'a' * 16}", id="a problem that attacks"),
    pytest.param(f"/problems/{'f' * 16}", id="a problem of very long words"),
    pytest.param("/nothing", id="an error"),
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_runs_and_nothing_is_loaded_from_elsewhere(tab: Tab, url: str, path: str) -> None:
    tab.open(url + path)
    assert tab.evaluate("document.querySelector('main').innerText.length") > 0
    assert tab.evaluate("window.owned") is None
    scripts = tab.evaluate("[...document.scripts].map(script => new URL(script.src).pathname)")
    ours = ["/page.js", "/review.js"] if path.startswith("/review") else ["/page.js"]
    assert scripts == ([] if path == "/nothing" else ours)
    requests = [event["request"]["url"] for event in tab.seen("Network.requestWillBeSent")]
    assert any("/style.css" in requested for requested in requests)
    assert [requested for requested in requests if not requested.startswith(url)] == []
    # A refused style or script would be logged here.
    log = [event["entry"]["text"] for event in tab.seen("Log.entryAdded")]
    assert [text for text in log if "status of 404" not in text] == []
    assert tab.evaluate("getComputedStyle(document.querySelector('.top')).display") == "flex"


@pytest.mark.parametrize("width", [320, 400, 1080, 1100, 1280])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_wider_than_the_window(tab: Tab, url: str, path: str, width: int) -> None:
    tab.resize(width)
    tab.open(url + path)
    right = "getBoundingClientRect().right"
    outside = f"[...document.querySelectorAll('main > *')].filter(e => e.{right} > e.parentElement.{right} - 15)"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(f"{outside}.map(e => e.outerHTML.slice(0, 80))") == []


CONTRAST = """
(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const colour = channels(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    throw new Error("the page has no background");
  };
  const worst = [...document.querySelectorAll("main *")]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.checkVisibility())
    .filter(e => !e.closest("svg"))
    .map(e => {
      const [a, b] = [light(channels(getComputedStyle(e).color)), light(ground(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)];
    })
    .sort((x, y) => x[0] - y[0])[0];
  return worst;
})()
"""


GREEN = """
(() => {
  const green = text => {
    const [r, g, b, a] = (text.match(/[\\d.]+/g) || []).map(Number);
    return a !== 0 && g > 1.3 * r && g > 1.3 * b;
  };
  const parts = ["color", "backgroundColor", "borderLeftColor", "fill"];
  return [...document.querySelectorAll("body *")]
    .filter(e => parts.some(part => green(getComputedStyle(e)[part])))
    .map(e => e.outerHTML.slice(0, 80));
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_text_can_be_read_on_its_ground(tab: Tab, url: str, path: str, scheme: str) -> None:
    tab.prefer(scheme)
    tab.open(url + path)
    ratio, element = tab.evaluate(CONTRAST)
    # WCAG 2.2, criterion 1.4.3 (AA).
    assert ratio >= 4.5, element
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, ground[4:-1].split(","))) < 64) is (scheme == "dark")


def test_a_page_can_be_used_by_keyboard_alone(tab: Tab, url: str) -> None:
    tab.open(f"{url}/traces/{GOOD_TRACE}")
    assert tab.evaluate(
        "[...document.querySelectorAll('details:not([open])')].every(d => d.firstElementChild.matches('summary'))"
    )
    assert tab.evaluate("document.documentElement.lang") == "en"
    tab.open(f"{url}/sessions?order=attention")
    fields = "[...document.querySelectorAll('input:not([type=hidden]), select')]"
    assert tab.evaluate(f"{fields}.length") > 5
    assert tab.evaluate(f"{fields}.every(field => field.labels.length === 1)")


def test_a_finding_leads_to_its_turn(tab: Tab, url: str) -> None:
    tab.open(f"{url}/sessions/refund-1187")
    link = tab.evaluate("document.querySelector('.finding a').href")
    assert link.endswith("#turn-1")
    tab.open(link)
    assert "repeated answer" in tab.evaluate("document.querySelector(':target').innerText")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_green_where_nothing_was_judged_good(tab: Tab, url: str, path: str, scheme: str) -> None:
    tab.prefer(scheme)
    tab.open(url + path)
    judged_good = tab.evaluate("document.querySelectorAll('.good').length")
    assert bool(tab.evaluate(GREEN)) is (judged_good > 0)
