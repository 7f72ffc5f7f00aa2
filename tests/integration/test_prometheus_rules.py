"""When each alert on agents fires, and a near miss of each, by promtool. Samples come every 15 s, or as it is said."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.alerting import RULES, check_alert, run, series, written
from tests.support.prometheus import CONFIGURATION
from tests.support.shown import TARGET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt install prometheus)"
    ),
]

AGENT = {**TARGET, "gen_ai_agent_name": "planner", "service_name": "shop"}
VERSION = {**AGENT, "service_version": "1.2.0"}
UP = written("up", TARGET)
ON_DUTY = series("agenteval_collector_on_duty")
LOOP = "agenteval_loop_last_seconds"
TRACES = "agenteval_traces_total"
COST = "agenteval_agent_cost_total"


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
    [pytest.param({}, "", id="default"), pytest.param({"agenteval_tenant": "acme"}, " of tenant acme", id="named")],
)
def test_an_alert_says_what_happened_and_links_to_the_page(
    tmp_path: Path, external: dict[str, str], page: str, tenant: dict[str, str], whose: str
) -> None:
    hostile = 'plan "b" & <i>'
    labels = {**VERSION, **tenant, "agenteval_loop_kind": "identical_call"}
    labels["gen_ai_agent_name"] = hostile.replace('"', '\\"')
    link = f"{page}/sessions?agent=plan+%22b%22+%26+%3Ci%3E&finding=identical_call"
    said = {
        "summary": f"Agent {hostile}{whose} (shop) loops: identical_call",
        "description": "It does the same over and over, which costs money until somebody stops it. List the sessions "
        "with `agenteval sessions --finding identical_call`; `agenteval why TRACE` says what was repeated.",
        "page": link,
        "runbook_url": "https://github.com/otel-agenteval/otel-agenteval/blob/main/docs/runbooks/AgentLoops.md",
    }
    alert = {
        "exp_labels": {**labels, "gen_ai_agent_name": hostile, "severity": "warning"},
        "exp_annotations": said,
    }
    tested = {
        "interval": "15s",
        "external_labels": external,
        "input_series": [{"series": written(LOOP, labels), "values": "60x40"}],
        "alert_rule_test": [{"eval_time": "2m", "alertname": "AgentLoops", "exp_alerts": [alert]}],
    }
    path = tmp_path / "case.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [tested]}))
    run("promtool", "test", "rules", str(path))


@pytest.mark.parametrize(
    ("values", "at", "fires"),
    [
        pytest.param("_x19 300x400", "5m", True, id="the first loop"),
        pytest.param("300x79 1200x400", "21m", True, id="a further one"),
        pytest.param("300x400", "14m45s", True, id="for ten minutes"),
        pytest.param("300x400", "17m15s", False, id="not longer"),
        pytest.param("_x79 300x400", "20m", False, id="an old collector that is scraped for the first time"),
        pytest.param("300x19 stale _x400", "6m", True, id="a scrape that failed"),
        pytest.param("300x19 stale _x400", "8m", False, id="a collector that was started anew"),
    ],
)
def test_loops(tmp_path: Path, values: str, at: str, fires: bool) -> None:
    labels = {**VERSION, "agenteval_loop_kind": "identical_call"}
    check_alert(tmp_path, "AgentLoops", {series(LOOP): values}, at, labels if fires else None)


@pytest.mark.parametrize(
    ("values", "at", "on_duty", "state", "fires"),
    [
        pytest.param("0x79 1x400", "21m", "1x400", "new", True, id="a first one of an agent that had others"),
        pytest.param("_x79 1x400", "21m", "1x400", "new", True, id="the first one of an agent"),
        pytest.param("0x79 1x400", "21m", "1x400", "regressed", True, id="one that came back"),
        pytest.param("1x79 2x400", "21m", "1x400", "new", True, id="a further one"),
        pytest.param("0x79 1x400", "21m", "1x400", "ongoing", False, id="one that is known"),
        pytest.param("0x79 1x400", "21m", "1x400", "muted", False, id="one that is muted"),
        pytest.param("0x79 1x400", "35m", "1x400", "new", False, id="long ago"),
        pytest.param("2x79 1x400", "21m", "1x400", "new", False, id="fewer than before"),
        pytest.param("3x400", "1m", "1x400", "new", False, id="a Prometheus that begins to scrape"),
        pytest.param("_x79 3x400", "21m", "_x79 1x400", "new", False, id="a collector that comes back"),
        pytest.param("_x79 3x400", "21m", "0x79 1x400", "new", False, id="a process that takes over from another one"),
    ],
)
def test_problems_that_are_new_or_come_back(
    tmp_path: Path, values: str, at: str, on_duty: str, state: str, fires: bool
) -> None:
    name = series("agenteval_problems", agenteval_problem_state=state)
    about = {
        **TARGET,
        "gen_ai_agent_name": "planner",
        "agenteval_problem_state": state,
        "agenteval_problem_severity": "error",
    }
    check_alert(tmp_path, "AgentProblem", {name: values, ON_DUTY: on_duty}, at, about if fires else None)


def test_a_problem_of_severity_warning_is_told_on_the_page_only(tmp_path: Path) -> None:
    name = series("agenteval_problems", agenteval_problem_state="new").replace('"error"', '"warning"')
    check_alert(tmp_path, "AgentProblem", {name: "0x79 1x400", ON_DUTY: "1x400"}, "21m", None)


@pytest.mark.parametrize(
    ("values", "fires"),
    [pytest.param("1x40 19.9x400", False, id="not enough"), pytest.param("1x40 20x400", True, id="enough")],
)
def test_a_version_that_is_worse(tmp_path: Path, values: str, fires: bool) -> None:
    about = {**TARGET, "gen_ai_agent_name": "planner", "service_version": "1.2.0"}
    about["gen_ai_evaluation_name"] = "task_completion"
    name = series("agenteval_regression", gen_ai_evaluation_name="task_completion")
    check_alert(tmp_path, "AgentVersionWorse", {name: values}, "15m", about if fires else None)


@pytest.mark.parametrize(
    ("alert", "errors", "others", "at", "fires"),
    [
        # Values of a minute each: after 5 hours of 10 good traces a minute, or of nothing.
        pytest.param("Fast", "0x300 0+5x60", "0+10x300 3000+5x60", "6h", True, id="half fail for an hour"),
        pytest.param("Fast", "0x300 0+5x60", "0+10x300 3000+5x60", "6h10m", False, id="and no more for five minutes"),
        pytest.param("Fast", "0x300 0+2x60", "0+10x300 3000+8x60", "6h", False, id="two of ten fail for an hour"),
        pytest.param("Fast", "0x355 0+10x5", "0+10x355 3550x5", "6h", False, id="all fail for five minutes"),
        pytest.param("Fast", "0x300 4x60", "0x361", "5h4m", False, id="four of four fail"),
        pytest.param("Fast", "0x300 5x60", "0x361", "5h4m", True, id="five of five fail"),
        pytest.param("Slow", "0+2x360", "0+8x360", "6h", True, id="two of ten fail for six hours"),
        pytest.param("Slow", "0+2x360", "0+8x360", "6h40m", False, id="and no more for half an hour"),
        pytest.param("Slow", "0+1x360", "0+9x360", "6h", False, id="one of ten fails for six hours"),
        pytest.param("Slow", "0x300 7x60", "0x361", "5h10m", False, id="seven of seven fail"),
        pytest.param("Slow", "0x300 8x60", "0x361", "5h10m", True, id="eight of eight fail"),
    ],
)
def test_the_error_budget(tmp_path: Path, alert: str, errors: str, others: str, at: str, fires: bool) -> None:
    values = {
        series(TRACES, agenteval_worst="error"): errors,
        series(TRACES, agenteval_worst="none"): others,
    }
    still = {name: f"{each} {_last(each)}x60" for name, each in values.items()}
    check_alert(tmp_path, f"AgentErrorBudget{alert}", still, at, VERSION if fires else None, interval="1m")


@pytest.mark.parametrize("failing", ["", "acme"])
def test_one_tenants_failures_are_no_failures_of_another_with_the_same_agent(tmp_path: Path, failing: str) -> None:
    def of(tenant: str, worst: str) -> str:
        return written(TRACES, {**VERSION, "agenteval_tenant": tenant, "agenteval_worst": worst})

    healthy = "acme" if failing == "" else ""
    values = {
        of(failing, "error"): "0+1x70",
        of(failing, "none"): "0+1x70",
        of(healthy, "error"): "0x70",
        of(healthy, "none"): "0+10x70",
    }
    about = VERSION | ({"agenteval_tenant": failing} if failing else {})
    check_alert(tmp_path, "AgentErrorBudgetFast", values, "1h5m", about, interval="1m")


def _last(values: str) -> str:
    """The last of values in promtool's notation."""
    end = values.rsplit(maxsplit=1)[-1]
    start, _, times = end.partition("x")
    first, _, step = start.partition("+")
    return str(int(first) + int(step or 0) * int(times))


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


@pytest.mark.parametrize(
    ("cost", "fires"),
    [
        # Dollars, every five minutes: a day and a half at 12 an hour, then the hour that is looked at. Fractions are
        # of two: a sum that is rounded would look as if the counter had been reset.
        pytest.param("0+1x432 432+3x14", True, id="three times as much as usual"),
        pytest.param("0+1x432 432+1.5x14", False, id="half as much again"),
        pytest.param("0+0.015625x432 6.75+0.078125x14", False, id="five times as much, of cents"),
        pytest.param("_x400 0+1x32 32+3x14", False, id="an agent that began today"),
        pytest.param("0+1x200 200+4x20 280+1x212 492+3x14", False, id="it had such an hour yesterday"),
    ],
)
def test_spend(tmp_path: Path, cost: str, fires: bool) -> None:
    check_alert(tmp_path, "AgentSpend", {series(COST): cost}, "37h10m", AGENT if fires else None, interval="5m")


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


@pytest.mark.parametrize(
    ("traces", "up", "fires"),
    [
        pytest.param(f"0+1x{WEEK + 12} {WEEK + 12}x20", "1x2100", True, id="it worked a week ago"),
        pytest.param(f"0+1x{WEEK + 12} stale _x20", "1x2100", True, id="and the collector was started anew since"),
        pytest.param(f"0+1x{WEEK + 30}", "1x2100", False, id="it works"),
        pytest.param(f"0+1x{WEEK + 12} {WEEK + 12}x20", f"1x{WEEK} 0x100", False, id="its collector is down"),
        pytest.param(f"0x40 0+1x{WEEK - 29} {WEEK - 29}x20", "1x2100", False, id="it was silent a week ago as well"),
        pytest.param(f"_x{WEEK - 300} 0+1x312 312x20", "1x2100", True, id="it worked a day ago, in its first week"),
        pytest.param(f"_x{WEEK - 300} 0+0.5x312 156x20", "1x2100", False, id="it works little"),
    ],
)
def test_silence(tmp_path: Path, traces: str, up: str, fires: bool) -> None:
    at = f"{(WEEK + 28) * 5}m"
    values = {series(TRACES, agenteval_worst="none"): traces, UP: up}
    check_alert(tmp_path, "AgentSilent", values, at, AGENT if fires else None, interval="5m")
