"""Two tenants have the same agent: no panel adds them up, by a real Prometheus that scrapes both at once."""

import json
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import prometheus
from tests.support.collector_process import collector_process
from tests.support.deploy import busy_agent
from tests.support.deploy.dashboards import dashboards
from tests.support.eventually import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None,
        reason="prometheus is not installed (Debian: apt install prometheus)",
    ),
]

KEYS = [{"name": "root", "key": "of-all"}, {"name": "ann", "key": "of-shop", "tenant": "shop"}]
SESSIONS = {"default": 8, "shop": 4}
TENANT = "agenteval_tenant"
FLEET, AGENT, COLLECTOR = (dashboards()[f"agenteval-{name}"] for name in ("fleet", "agent", "collector"))
APART = [
    (panel["title"], target["expr"]) for panel in FLEET.panels if panel["type"] != "stat" for target in panel["targets"]
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[prometheus.Prometheus]:
    """A Prometheus that scrapes all tenants of a collector, two of which have had the same agent at work."""
    data, scraped = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("prometheus")
    settings = {"AGENTEVAL_SERVER__KEYS": json.dumps(KEYS)}
    with collector_process(data, settings) as addresses:
        url = f"http://{addresses['web']}/metrics"
        with prometheus.start(url, scraped, key="of-all") as running:
            eventually(lambda: running.query("up == 1"), within=60)
            # Twice: nothing has a rate before it was scraped twice.
            for first in (0, 100):
                for (tenant, sessions), key in zip(SESSIONS.items(), ("of-all", "of-shop"), strict=True):
                    held = range(first, first + sessions)
                    busy_agent.work(f"http://{addresses['grpc']}", "1.4", held, key)
                    counted = _counted(tenant)
                    done = sessions * (1 if first == 0 else 2)
                    eventually(partial(running.query, f"{counted} >= {done}"), within=60)
            yield running


def _counted(tenant: str) -> str:
    """Return the query of the traces of a tenant."""
    return f'sum(agenteval_traces_total{{{TENANT}="{"" if tenant == "default" else tenant}"}})'


def _values(
    server: prometheus.Prometheus, name: str, expression: str, at: float, **wanted: str
) -> dict[frozenset[Any], str]:
    """Return the values of a query `at` a time, each by the labels of its series, where `wanted` is chosen."""
    dashboard = dashboards()[name]
    dashboard.choose(server, wanted)
    found = server.query(dashboard.fill(expression), at)
    return {frozenset(series["metric"].items()): series["value"][1] for series in found}


@pytest.mark.parametrize(("title", "expression"), APART)
def test_a_line_or_row_of_all_agents_is_of_one_tenant(
    server: prometheus.Prometheus, title: str, expression: str
) -> None:
    values = partial(_values, server, "agenteval-fleet", expression, time.time())
    default, shop = values(tenant="default"), values(tenant="shop")
    assert default.keys().isdisjoint(shop.keys())
    assert values() == default | shop


@pytest.mark.parametrize("tenant", SESSIONS)
def test_the_dashboard_of_an_agent_is_of_one_tenant(server: prometheus.Prometheus, tenant: str) -> None:
    [active] = (panel["targets"][0]["expr"] for panel in AGENT.panels if panel["title"] == "Active sessions")
    chosen = {"tenant": tenant, "agent": busy_agent.NAME}
    told = _values(server, "agenteval-agent", active, time.time(), **chosen)
    assert [*told.values()] == [str(2 * SESSIONS[tenant])]


def test_tenants_are_told_apart_in_the_table_of_agents(server: prometheus.Prometheus) -> None:
    [table] = (panel for panel in FLEET.panels if panel["type"] == "table")
    rows: set[frozenset[Any]] = set()
    for target in table["targets"]:
        rows |= _values(server, "agenteval-fleet", target["expr"], time.time()).keys()
    agent = ("gen_ai_agent_name", busy_agent.NAME)
    assert rows == {frozenset({agent}), frozenset({agent, (TENANT, "shop")})}


@pytest.mark.parametrize("name", ["agenteval-fleet", "agenteval-collector"])
def test_a_collector_counts_once_however_many_tenants_it_has(server: prometheus.Prometheus, name: str) -> None:
    [collectors] = (
        panel["targets"][0]["expr"] for panel in dashboards()[name].panels if panel["title"] in ("Collectors", "Up")
    )
    assert [*_values(server, name, collectors, time.time()).values()] == ["1"]


def test_what_waits_is_told_by_tenant(server: prometheus.Prometheus) -> None:
    [queues] = (panel["targets"][0] for panel in COLLECTOR.panels if panel["title"] == "Queues")
    told = _values(server, "agenteval-collector", queues["expr"], time.time())
    assert {dict(labels).get(TENANT) for labels in told} == {None, "shop"}
    assert f"{{{{{TENANT}}}}}" in queues["legendFormat"]


def test_a_collector_of_one_tenant_offers_the_default_tenant_alone(tmp_path: Path) -> None:
    scraped = tmp_path / "prometheus"
    scraped.mkdir()
    with (
        collector_process(tmp_path) as addresses,
        prometheus.start(f"http://{addresses['web']}/metrics", scraped) as running,
    ):
        eventually(lambda: running.query("agenteval_collector_build_info"), within=60)
        FLEET.choose(running, {})
        assert FLEET.chosen["tenant"] == "()"
        assert FLEET.chosen["environment"] == ".*"
