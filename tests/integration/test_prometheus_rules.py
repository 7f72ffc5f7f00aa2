"""When each alert on agents fires, and a near miss of each, by promtool. Samples come every 15 s, or as it is said."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.alerting import RULES, check_alert, run, series, written
from tests.support.prometheus import CONFIGURATION
from tests.support.shown import TARGET, samples

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt install prometheus)"
    ),
]

AGENT = {**TARGET, "gen_ai_agent_name": "planner", "service_name": "shop"}
VERSION = {**AGENT, "service_version": "1.2.0"}
[ALARM] = [{**each.labels, **TARGET} for each in samples() if each.name == "agenteval_alarm"]


def test_the_shipped_files_are_valid() -> None:
    run("promtool", "check", "rules", str(RULES))
    run("promtool", "check", "config", str(CONFIGURATION / "prometheus.yml"))


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed (prometheus-alertmanager)")
def test_the_shipped_alertmanager_configuration_is_valid() -> None:
    run("amtool", "check-config", str(CONFIGURATION / "alertmanager.yml"))


@pytest.mark.parametrize(
    ("external", "page"),
    [
        pytest.param({}, "http://127.0.0.1:4319", id="the address that is scraped"),
        pytest.param({"agenteval_url": "https://eval.example.org"}, "https://eval.example.org", id="a named one"),
    ],
)
@pytest.mark.parametrize(
    ("tenant", "whose"),
    [pytest.param({}, "", id="default"), pytest.param({"agenteval_tenant": "acme"}, " (tenant acme)", id="named")],
)
def test_an_alert_says_what_happened_and_links_to_the_page(
    tmp_path: Path, external: dict[str, str], page: str, tenant: dict[str, str], whose: str
) -> None:
    hostile = 'plan "b" & <i> loops'
    labels = {**ALARM, **tenant, "agenteval_alarm_title": hostile.replace('"', '\\"')}
    said = {
        "summary": f"{hostile}{whose}, service shop in prod",
        "description": "31% of the last traces failed; usually 0.8% do. `agenteval alarms` lists it with examples; "
        "`agenteval why TRACE` shows the evidence of one.",
        "page": f"{page}/alarms#3f0c6a52d1e47b98",
        "runbook_url": "https://github.com/otel-agenteval/otel-agenteval/blob/main/docs/runbooks/AgentAlarm.md",
    }
    alert = {
        "exp_labels": {**labels, "agenteval_alarm_title": hostile, "severity": "warning"},
        "exp_annotations": said,
    }
    tested = {
        "interval": "15s",
        "external_labels": external,
        "input_series": [{"series": written("agenteval_alarm", labels), "values": "1x40"}],
        "alert_rule_test": [{"eval_time": "2m", "alertname": "AgentAlarm", "exp_alerts": [alert]}],
    }
    path = tmp_path / "case.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [tested]}))
    run("promtool", "test", "rules", str(path))


@pytest.mark.parametrize(
    ("values", "at", "fires"),
    [
        pytest.param("_x19 1x400", "5m", True, id="an alarm that begins"),
        pytest.param("1x400", "15s", True, id="a Prometheus that begins to scrape"),
        pytest.param("1x19 stale _x400", "6m", True, id="a scrape that failed"),
        pytest.param("1x19 stale _x400", "8m", False, id="an alarm that has ended"),
    ],
)
def test_alarms(tmp_path: Path, values: str, at: str, fires: bool) -> None:
    about = {**ALARM, "severity": "warning"}
    check_alert(tmp_path, "AgentAlarm", {written("agenteval_alarm", ALARM): values}, at, about if fires else None)


@pytest.mark.parametrize(
    ("low", "limit", "at", "fires"),
    [
        pytest.param("4x60", "3x60", "5m", True, id="more than the limit, for five minutes"),
        pytest.param("4x60", "3x60", "4m45s", False, id="not as long"),
        pytest.param("3x60", "3x60", "10m", False, id="as many as chance explains"),
        pytest.param("4x10 3x60", "3x60", "10m", False, id="for a moment"),
    ],
)
def test_low_sessions(tmp_path: Path, low: str, limit: str, at: str, fires: bool) -> None:
    about = {**AGENT, "gen_ai_evaluation_name": "agent_reliability"}
    values = {series("agenteval_sessions_low"): low, series("agenteval_sessions_low_limit"): limit}
    check_alert(tmp_path, "AgentSessionsLow", values, at, about if fires else None)


COVERAGE = {**AGENT, "gen_ai_evaluation_name": "agent_reliability"}


@pytest.mark.parametrize(
    ("total", "count", "fires"),
    [
        # A day of 12 sessions an hour with a mean of 0.875, then the hour that is looked at.
        pytest.param("0+0.875x300 262.5+0.5x14", "0+1x314", True, id="from 0.875 to 0.5"),
        pytest.param("0+0.875x300 262.5+0.6875x14", "0+1x314", False, id="from 0.875 to 0.6875"),
        pytest.param("0+0.875x300 262.5+0.25x14", "0+1x300 300+0.5x14", False, id="six sessions"),
        pytest.param("_x300 0+0.25x14", "_x300 0+1x14", False, id="an agent without a past"),
    ],
)
def test_a_drop_of_coverage(tmp_path: Path, total: str, count: str, fires: bool) -> None:
    values = {
        series("agenteval_session_coverage_sum"): total,
        series("agenteval_session_coverage_count"): count,
    }
    check_alert(tmp_path, "AgentCoverageDrop", values, "26h10m", COVERAGE if fires else None, interval="5m")


WEEK = 7 * 24 * 12
"""Samples of five minutes."""
