"""Accessibility of every view by axe-core: WCAG 2.2, levels A and AA."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS
from agenteval_collector.cli.run_demo import sample_traces

from tests.support.agent_history import AGENTS, served_history
from tests.support.agent_history import NOW as HISTORY_ENDS
from tests.support.browser import Tab
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.memory_queries import GOOD_TRACE, NOW
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.travel_agent import LOOP_TRACES, RUNNING_TRACE, travel_agent
from tests.support.web_server import serve

pytestmark = pytest.mark.slow

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


HISTORY = ["/", "/agents", f"/agents/{AGENTS[0]}?range=7d", "/problems", "/quality", "/reliability",
           f"/reliability?agent={AGENTS[0]}&before=1.4.0&after=1.5.0"]  # fmt: skip
TRAVEL = ["/sessions/refund-1187", f"/traces/{LOOP_TRACES[1]}", f"/traces/{RUNNING_TRACE}", "/review", "/nothing"]
DEMO = ["/", "/alarms", "/alarms?state=firing", "/problems?severity=error", "/sessions", "/sessions?agent=refund-desk",
        "/sessions?agent=nobody", "/sessions/demo-stuck", "/agents/stock-keeper", "/quality", "/review"]  # fmt: skip


@pytest.fixture(scope="module")
def every_view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of every view, with much, little and nothing to show."""
    asked = travel_agent()
    asked.judged = [GOOD_TRACE]
    with (
        served_history(tmp_path_factory.mktemp("history")) as history,
        serve(app_of(history, clock=ManualClock(HISTORY_ENDS))) as first,
        serve(app_of(asked, clock=ManualClock(NOW))) as second,
        RunningCollector(tmp_path_factory.mktemp("demo")) as collector,
    ):
        made = sum(play(script, f"http://{collector.addresses['grpc']}", lambda _: None) for script in SCRIPTS)
        queries = collector.service.pipeline.queries
        eventually(lambda: len(sample_traces(queries)) == made and queries.firing_alarms())
        trace_id = queries.session("demo-failing-tools")["trace_ids"][0]
        problem = queries.problems().items[0]["problem_id"]
        span = collector.get(f"/api/v1/traces/{trace_id}/spans")["items"][1]["span_id"]
        paths = [*DEMO, f"/traces/{trace_id}", f"/traces/{trace_id}?span={span}", f"/problems/{problem}"]
        yield [
            *(first + path for path in HISTORY),
            *(second + path for path in TRAVEL),
            *(f"http://{collector.addresses['web']}{path}" for path in paths),
        ]


@pytest.fixture(scope="module")
def axe() -> str:
    pytest.importorskip("axe_playwright_python", reason="the group `axe` is not installed")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


def violations(tab: Tab, axe: str) -> list[str]:
    """What axe-core finds wrong with the page in the tab: each rule with the first element that breaks it."""
    tab.evaluate(axe)
    asked = {"runOnly": {"type": "tag", "values": LEVELS}, "resultTypes": ["violations"]}
    expression = f"axe.run(document, {json.dumps(asked)})"
    sent = tab.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
    found: list[dict[str, Any]] = sent["result"]["value"]["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:120]} and {len(each['nodes']) - 1} more" for each in found]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_violation(every_view: list[str], tab: Tab, axe: str, scheme: str, width: int) -> None:
    tab.resize(width)
    tab.prefer(scheme)
    found = {}
    for url in every_view:
        tab.open(url)
        if wrong := violations(tab, axe):
            found[url] = wrong
    assert not found, json.dumps(found, indent=1)


def test_axe_sees_what_is_wrong(every_view: list[str], tab: Tab, axe: str) -> None:
    tab.open(every_view[0])
    tab.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert any(each.startswith("button-name") for each in violations(tab, axe))
