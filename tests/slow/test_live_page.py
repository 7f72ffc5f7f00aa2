"""A page that stays open in a real browser: it follows the collector without a reload, and outlives its restart."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.browser import Tab
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.memory_queries import NOW, MemoryQueries, session, trace, turn
from tests.support.pages import app_of
from tests.support.web_server import serve

pytestmark = pytest.mark.slow

LIVE = "document.querySelector('.live').textContent"


def queries_of(*names: str) -> MemoryQueries:
    queries = MemoryQueries()
    for number, name in enumerate(names):
        add(queries, name, number)
    return queries


def add(queries: MemoryQueries, name: str, number: int) -> None:
    said = trace(f"{number:032x}", name, turn("hi", "ok"), began=number)
    queries.add(session(name, said, outcomes=[]), said)


def app(queries: MemoryQueries) -> Any:
    return app_of(queries, clock=ManualClock(NOW))


def refresh(tab: Tab) -> None:
    """What the page does every few seconds."""
    tab.send("Runtime.evaluate", expression="refresh()", awaitPromise=True)


def rows(tab: Tab) -> list[str]:
    return list(tab.evaluate("[...document.querySelectorAll('td.id a')].map(each => each.textContent)"))


def link(name: str) -> str:
    return f"document.querySelector('a[href=\"/sessions/{name}\"]')"


def test_what_is_new_comes_without_a_reload_and_the_reader_keeps_the_place(tab: Tab) -> None:
    queries = queries_of(*(f"s-{number}" for number in range(40)))
    with serve(app(queries)) as url:
        tab.resize(1280, 500)
        tab.open(f"{url}/sessions?order=newest")
        tab.evaluate("window.kept = true; document.querySelector('#agent').value = 'half a na'")
        tab.evaluate(f"{link('s-5')}.focus()")
        tab.evaluate(f"{link('s-5')}.scrollIntoView({{block: 'center'}})")
        before = tab.evaluate(f"{link('s-5')}.getBoundingClientRect().top")
        add(queries, "s-new", 50)
        refresh(tab)
        assert rows(tab)[0] == "s-new"
        assert tab.evaluate("document.activeElement.textContent") == "s-5"
        assert tab.evaluate("window.kept") is True
        assert tab.evaluate("document.querySelector('#agent').value") == "half a na"
        eventually(lambda: abs(tab.evaluate(f"{link('s-5')}.getBoundingClientRect().top") - before) < 2)


def test_an_order_by_the_reader_outlives_what_comes(tab: Tab) -> None:
    queries = queries_of("b", "a")
    with serve(app(queries)) as url:
        tab.open(f"{url}/sessions?order=newest")
        tab.evaluate("document.querySelector('button.sort').click()")
        assert rows(tab) == ["a", "b"]
        add(queries, "aa", 9)
        refresh(tab)
        assert rows(tab) == ["a", "aa", "b"]
        assert tab.evaluate("document.querySelector('th').ariaSort") == "ascending"


def test_a_page_says_that_it_is_stale_and_goes_on_after_a_restart(tab: Tab) -> None:
    queries = queries_of("first")
    with serve(app(queries)) as url:
        tab.open(f"{url}/sessions")
        refresh(tab)
        assert tab.evaluate(LIVE) == "live"
    refresh(tab)
    assert tab.evaluate(LIVE).startswith("stale since ")
    assert rows(tab) == ["first"]
    port = urlsplit(url).port
    assert port is not None
    add(queries, "second", 5)
    with serve(app(queries), port):
        refresh(tab)
        assert tab.evaluate(LIVE) == "live"
        assert rows(tab) == ["second", "first"]


def test_times_are_those_of_the_reader(tab: Tab) -> None:
    tab.send("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    try:
        with serve(app(queries_of("only"))) as url:
            tab.open(f"{url}/sessions/only")
            said = tab.evaluate("document.querySelector('time[data-moment]').textContent")
            title = tab.evaluate("document.querySelector('time[data-moment]').title")
        assert said == "2026-03-02 18:00:00 GMT+9"
        assert title.endswith("2026-03-02 09:00:00 UTC")
    finally:
        tab.send("Emulation.setTimezoneOverride", timezoneId="")


def test_an_id_is_copied(tab: Tab) -> None:
    with serve(app(queries_of("only"))) as url:
        tab.send("Browser.grantPermissions", origin=url, permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        tab.open(f"{url}/sessions/only")
        tab.evaluate("document.querySelector('h1 button.copy').click()")
        eventually(lambda: tab.evaluate("document.querySelector('h1 button.copy').textContent") == "Copied")
