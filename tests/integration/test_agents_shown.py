"""Agents over HTTP, on the page and by the command, from a store with a week of sample agents."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cli_read import agenteval
from tests.support import asking
from tests.support.agent_history import AGENTS, NOW, served_history
from tests.support.clock import ManualClock
from tests.support.otlp import START, trace_id, traces, turn
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.web_server import serve

AGENT = AGENTS[0]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_history(tmp_path_factory.mktemp("store")) as queries:
        app = app_of(queries, clock=ManualClock(NOW))
        with serve(app) as url:
            yield url


def test_every_agent_is_listed_with_its_figures(url: str) -> None:
    page = asking.get(f"{url}/api/v1/agents?range=7d").json()
    assert {item["agent"] for item in page["items"]} == {*AGENTS}
    for item in page["items"]:
        assert len(item["points"]) == 28
        assert sum(point["errors"]["traces"] for point in item["points"]) == item["errors"]["traces"]
        assert sum(version["sessions"] for version in item["versions"]) == item["sessions"]
        low, high = item["errors"]["interval"]
        assert 0 <= low < item["errors"]["rate"] < high <= 1
    unjudged = next(item for item in page["items"] if item["agent"] == AGENTS[2])
    assert unjudged["pass_rates"] == {}


def test_an_agent_by_itself_is_the_item_of_the_listing(url: str) -> None:
    page = asking.get(f"{url}/api/v1/agents?range=7d").json()
    item = next(item for item in page["items"] if item["agent"] == AGENT)
    about = {name: page[name] for name in ("range", "since", "step_seconds")}
    assert asking.get(f"{url}/api/v1/agents/{AGENT}?range=7d").json() == {**item, **about}


def test_an_agent_whose_clock_once_stood_at_the_epoch_is_shown(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, ManualClock(START + 3_600 * 10**9)) as collector:
        collector.send(traces(turn(1, "hi", "hello", at=1), turn(2, "hi", "hello")))
        for number in (1, 2):
            collector.scored(trace_id(number).hex())
        found = collector.get("/api/v1/agents/planner")
        assert [version["first_at"] for version in found["versions"]] == ["1970-01-01T00:00:00.000000Z"]
        assert "First trace" in collector.get("/agents/planner")


def test_a_listing_goes_on_where_it_ended(url: str) -> None:
    first = asking.get(f"{url}/api/v1/agents?limit=2").json()
    rest = asking.get(f"{url}/api/v1/agents?limit=2&cursor={first['next_cursor']}").json()
    assert len({item["agent"] for item in first["items"] + rest["items"]}) == 3
    assert rest["next_cursor"] is None


def test_the_page_of_an_agent_compares_its_newest_versions(url: str) -> None:
    page = asking.get(f"{url}/agents/{AGENT}?range=7d").text
    assert '<h2 id="comparison">1.4.0 and 1.5.0</h2>' in page
    assert "Pass rate, task completion" in page
    chosen = asking.get(f"{url}/agents/{AGENT}?range=7d&before=1.3.0&after=1.4.0").text
    assert '<h2 id="comparison">1.3.0 and 1.4.0</h2>' in chosen


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/nobody", 404),
        (f"/agents/{AGENT}?before=9", 404),
        ("/agents?range=1h", 400),
        (f"/reliability?agent={AGENT}&before=1.4.0&after=9", 404),
    ],
)
def test_what_is_not_known_is_said_on_an_error_page(url: str, path: str, status: int) -> None:
    answer = asking.get(url + path, headers={"Accept": "text/html"})
    assert answer.status_code == status
    assert "<main>" in answer.text


def test_pages_may_run_our_scripts_and_other_answers_none(url: str) -> None:
    policies = {
        path: asking.get(url + path).headers["content-security-policy"]
        for path in ("/agents", "/api/v1/agents", "/nothing")
    }
    assert [path for path, policy in policies.items() if "script-src 'self'" in policy] == ["/agents"]
    assert [path for path, policy in policies.items() if "script-src" in policy] == ["/agents"]
    assert not any("unsafe" in policy for policy in policies.values())


def test_the_files_of_the_page_are_kept_for_ever(url: str) -> None:
    page = asking.get(f"{url}/agents/{AGENT}").text
    for name in ("vendor/uPlot-1.6.32.min.js", "vendor/uPlot-1.6.32.min.css", "charts.js", "charts.css", "style.css"):
        address = page.partition(f'"/{name}?')[2].partition('"')[0]
        answer = asking.get(f"{url}/{name}?{address}")
        assert "immutable" in answer.headers["cache-control"]


def test_the_reliability_of_versions_is_shown_and_compared(url: str) -> None:
    page = asking.get(f"{url}/reliability").text
    assert "60 runs of 12 tasks" in page
    assert f"/reliability?agent={AGENT}&amp;service=shop&amp;before=1.4.0&amp;after=1.5.0" in page
    assert "1.5.0 is worse: pass^1" in asking.get(f"{url}/reliability?agent={AGENT}&before=1.4.0&after=1.5.0").text


def test_the_command_lists_the_agents(url: str) -> None:
    answer = asking.get(f"{url}/api/v1/agents?range=7d&limit=50").json()
    assert json.loads(agenteval("agents", "--range", "7d", "--json", "--url", url).stdout) == answer
    table = agenteval("agents", "--range", "7d", "--url", url, COLUMNS="200").stdout
    assert all(name in table for name in AGENTS)
    assert "not judged" in table


def test_two_versions_are_compared_as_on_the_page(url: str) -> None:
    command = ("compare", AGENT, "1.3.0", "1.4.0", "--range", "7d", "--url", url)
    document = json.loads(agenteval(*command, "--json").stdout)
    assert {name: document[name] for name in ("agent", "range", "before", "after")} == {
        "agent": AGENT, "range": "7d", "before": "1.3.0", "after": "1.4.0",
    }  # fmt: skip
    versions = {
        each["version"]: each for each in asking.get(f"{url}/api/v1/agents/{AGENT}?range=7d").json()["versions"]
    }
    errors = next(each for each in document["figures"] if each["name"] == "traces with an error")
    assert (errors["before"], errors["after"]) == tuple(versions[name]["errors"]["rate"] for name in ("1.3.0", "1.4.0"))
    low, high = errors["interval"]
    assert low <= errors["difference"] <= high
    text = agenteval(*command).stdout
    assert f"{AGENT} in shop: 1.3.0 and 1.4.0, the last 7d" in text
    assert all(each["name"].replace("_", " ") in text for each in document["figures"])


@pytest.mark.parametrize(
    ("agent", "version", "says"), [(AGENT, "9", "version '9' has no trace"), ("nobody", "1", "agent 'nobody'")]
)
def test_what_cannot_be_compared_is_said(url: str, agent: str, version: str, says: str) -> None:
    result = agenteval("compare", agent, version, "1.4.0", "--url", url)
    assert result.exit_code == 1
    assert says in result.stderr
