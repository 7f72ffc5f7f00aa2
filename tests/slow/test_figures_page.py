"""The pages of agents, quality and reliability in a real browser: charts that are drawn, read and usable by all."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.slow.test_page import ATTACK, CONTRAST, LONG
from tests.support.agent_history import NOW, served_history
from tests.support.browser import Tab
from tests.support.clock import ManualClock
from tests.support.pages import app_of
from tests.support.web_server import serve

pytestmark = pytest.mark.slow

AGENT = "/agents/travel_agent?range=7d"
PATHS = [
    pytest.param("/agents", id="agents"),
    pytest.param("/agents?range=30d", id="agents over a month"),
    pytest.param(AGENT, id="an agent"),
    pytest.param("/agents/billing_agent", id="an agent without a judge"),
    pytest.param(f"/agents/{quote(ATTACK, safe='')}", id="an agent that attacks"),
    pytest.param(f"/agents/{LONG}", id="an agent of very long words"),
    pytest.param("/agents/nobody", id="an agent that is not known"),
    pytest.param("/quality", id="quality"),
    pytest.param("/reliability", id="reliability"),
    pytest.param(f"/reliability?agent={quote(ATTACK, safe='')}", id="reliability of what attacks"),
    pytest.param("/reliability?agent=travel_agent&before=1.4.0&after=1.5.0", id="two versions"),
    pytest.param(f"/reliability?agent={LONG}&before={LONG}0&after={LONG}", id="two versions of very long words"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_history(tmp_path_factory.mktemp("store"), odd=[ATTACK, LONG]) as queries:
        app = app_of(queries, clock=ManualClock(NOW))
        with serve(app) as url:
            yield url


@pytest.mark.parametrize("path", PATHS)
def test_only_our_own_scripts_run_and_nothing_is_refused(tab: Tab, url: str, path: str) -> None:
    tab.open(url + path)
    assert tab.evaluate("document.querySelector('main').innerText.length") > 0
    assert tab.evaluate("window.owned") is None
    requests = [event["request"]["url"] for event in tab.seen("Network.requestWillBeSent")]
    assert [requested for requested in requests if not requested.startswith(url)] == []
    # A refused style or script would be logged here.
    log = [event["entry"]["text"] for event in tab.seen("Log.entryAdded")]
    assert [text for text in log if "status of 404" not in text] == []
    assert tab.seen("Runtime.exceptionThrown") == []


@pytest.mark.parametrize("width", [320, 390, 1080, 1100, 1280])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_wider_than_the_window(tab: Tab, url: str, path: str, width: int) -> None:
    tab.resize(width)
    tab.open(url + path)
    right = "getBoundingClientRect().right"
    outside = f"[...document.querySelectorAll('main > *')].filter(e => e.{right} > e.parentElement.{right} - 15)"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(f"{outside}.map(e => e.outerHTML.slice(0, 80))") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_text_can_be_read_on_its_ground(tab: Tab, url: str, path: str, scheme: str) -> None:
    tab.prefer(scheme)
    tab.open(url + path)
    ratio, element = tab.evaluate(CONTRAST)
    # WCAG 2.2, criterion 1.4.3 (AA).
    assert ratio >= 4.5, element


COLOURS = """
[...document.querySelectorAll(".plot canvas")].map(canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  }
  return [...seen];
})
"""


DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


def colour_of(tab: Tab, name: str) -> str:
    value = tab.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()").lstrip("#")
    return ",".join(str(int(value[place : place + 2], 16)) for place in (0, 2, 4))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_in_the_colours_of_the_scheme(tab: Tab, url: str, scheme: str) -> None:
    tab.resize(1280)
    tab.prefer("dark" if scheme == "light" else "light")
    tab.open(url + AGENT)
    # The charts follow while they are shown.
    tab.prefer(scheme)
    tab.send("Runtime.evaluate", expression=DRAWN, awaitPromise=True)
    drawn = tab.evaluate(COLOURS)
    assert len(drawn) == 6
    assert all(colour_of(tab, "--accent") in colours for colours in drawn)
    assert colour_of(tab, "--band") in drawn[0]


def test_a_chart_is_read_by_keyboard(tab: Tab, url: str) -> None:
    tab.resize(1280)
    tab.open(url + AGENT)
    output = "document.querySelector('.chart output').textContent"
    newest = tab.evaluate(output)
    assert " · pass rate: " in newest
    tab.evaluate("document.querySelector('.plot').focus()")
    tab.press("ArrowLeft")
    assert tab.evaluate(output) == newest
    tab.press("ArrowLeft")
    assert tab.evaluate(output) != newest
    tab.press("Home")
    first = tab.evaluate("document.querySelector('.chart td').textContent")
    assert tab.evaluate(output)[:10] == first[:10]


def test_every_chart_has_its_figures_as_a_table(tab: Tab, url: str) -> None:
    tab.open(url + AGENT)
    charts = "[...document.querySelectorAll('.chart')]"
    assert tab.evaluate(f"{charts}.every(each => each.querySelector('table tbody tr'))")
    assert tab.evaluate(f"{charts}.some(each => each.querySelector('details').open)") is False
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(url + AGENT)
        assert tab.evaluate(f"{charts}.every(each => each.querySelector('details').open)")
        assert tab.evaluate("document.querySelector('.plot')") is None
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)


def test_a_version_leads_to_its_comparison_with_the_newest(tab: Tab, url: str) -> None:
    tab.open(url + AGENT)
    link = tab.evaluate("[...document.querySelectorAll('table.compared a')].find(a => a.textContent === '1.3.0').href")
    tab.open(link)
    assert tab.evaluate("document.querySelector(':target').textContent") == "1.3.0 and 1.5.0"


@pytest.mark.parametrize("path", [AGENT, "/quality", "/reliability"])
def test_the_navigation_says_where_one_is(tab: Tab, url: str, path: str) -> None:
    tab.open(url + path)
    # The link keeps the scope that was chosen last.
    current = tab.evaluate("document.querySelector('.pages [aria-current]').pathname")
    assert current != "/"
    assert path.startswith(current)
