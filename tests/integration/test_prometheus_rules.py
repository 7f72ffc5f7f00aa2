import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.emit.telemetry import TelemetryOutput
from prometheus_client.parser import text_string_to_metric_families

from tests.support.findings import loop_found
from tests.support.prometheus import CONFIGURATION
from tests.support.sessions import Level, Sessions

RULES = CONFIGURATION / "agenteval.rules.yml"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt install prometheus)"
)


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def series_of(page: str, family_name: str) -> list[tuple[str, float]]:
    """The series of a family as the collector shows them, in Prometheus' notation, each with its value."""
    series = []
    for family in text_string_to_metric_families(page):
        if family.name.startswith(family_name):
            for sample in family.samples:
                labels = {"job": "agenteval", "instance": "127.0.0.1:4319", **sample.labels}
                notation = ",".join(f'{name}="{value}"' for name, value in labels.items() if value)
                series.append((f"{sample.name}{{{notation}}}", sample.value))
    assert series, "a rule test passes on series that do not exist"
    return series


def scraped(*levels: Level) -> list[tuple[str, float]]:
    """The session gauges as the collector shows them, each a series in Prometheus' notation and its value."""
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.evaluations.observe_sessions(Sessions(*levels))
    return series_of(telemetry.render()[0].decode(), "agenteval_sessions")


def run_rule(directory: Path, levels: tuple[Level, ...], at: str, expected: list[dict[str, Any]]) -> None:
    case = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": series, "values": f"{value:g}x60"} for series, value in scraped(*levels)],
                "alert_rule_test": [{"eval_time": at, "alertname": "AgentSessionsLow", "exp_alerts": expected}],
            }
        ],
    }
    path = directory / "case.yml"
    path.write_text(yaml.safe_dump(case))
    promtool("test", "rules", str(path))


def fired(low: int, agent: str = "planner", evaluator: str = "agent_reliability") -> dict[str, Any]:
    rule = yaml.safe_load(RULES.read_text())["groups"][0]["rules"][0]

    def filled(text: str) -> str:
        return (
            text.replace("{{ $value }}", str(low))
            .replace("{{ $labels.gen_ai_agent_name }}", agent)
            .replace("{{ $labels.service_name }}", "shop")
            .replace("{{ $labels.gen_ai_evaluation_name }}", evaluator)
        )

    return {
        "exp_labels": {
            "severity": "warning",
            "job": "agenteval",
            "instance": "127.0.0.1:4319",
            "gen_ai_agent_name": agent,
            "service_name": "shop",
            "gen_ai_evaluation_name": evaluator,
        },
        "exp_annotations": {name: filled(text) for name, text in rule["annotations"].items()},
    }


def test_the_shipped_files_are_valid() -> None:
    promtool("check", "rules", str(RULES))
    promtool("check", "config", str(CONFIGURATION / "prometheus.yml"))


@pytest.mark.parametrize(
    ("active", "low", "fires"),
    [
        pytest.param(4, 4, False, id="four sessions are too few even if all are low"),
        pytest.param(5, 2, False, id="two of five may be chance"),
        pytest.param(5, 3, True, id="three of five are not"),
        pytest.param(10, 3, False, id="three of ten may be chance"),
        pytest.param(10, 4, True, id="four of ten are not"),
        pytest.param(100, 10, False, id="one in ten is normal"),
        pytest.param(100, 19, False, id="19 of 100 may be chance"),
        pytest.param(100, 20, True, id="20 of 100 are not"),
    ],
)
def test_the_rule_tells_a_bad_agent_from_chance(tmp_path: Path, active: int, low: int, fires: bool) -> None:
    levels = (Level("planner", "shop", "agent_reliability", active, low),)
    run_rule(tmp_path, levels, "6m", [fired(low)] if fires else [])


def test_the_rule_waits_five_minutes(tmp_path: Path) -> None:
    levels = (Level("planner", "shop", "agent_reliability", 10, 10),)
    run_rule(tmp_path, levels, "4m", [])
    run_rule(tmp_path, levels, "5m", [fired(10)])


def test_the_share_is_of_all_active_sessions_and_of_each_agent_by_itself(tmp_path: Path) -> None:
    levels = (
        Level("planner", "shop", None, 20, 0),
        Level("planner", "shop", "agent_reliability", 6, 6),
        Level("writer", "shop", None, 10, 0),
        Level("writer", "shop", "agent_reliability", 10, 5),
        Level("writer", "shop", "agent_consistency", 10, 1),
    )
    run_rule(tmp_path, levels, "6m", [fired(5, agent="writer")])


def test_agents_without_a_name_are_watched_too(tmp_path: Path) -> None:
    alert = fired(10, agent="")
    del alert["exp_labels"]["gen_ai_agent_name"]
    run_rule(tmp_path, (Level(None, "shop", "agent_reliability", 10, 10),), "6m", [alert])


@pytest.mark.parametrize(
    ("values", "at", "fires"),
    [
        pytest.param("_x19 1x60", "5m", True, id="the first loop of an agent"),
        pytest.param("1x19 2x60", "5m", True, id="a further loop"),
        pytest.param("1x80", "15m", False, id="no further loop"),
        pytest.param("1x19 2x80", "18m", False, id="the last loop was long ago"),
    ],
)
def test_the_rule_tells_of_loops(tmp_path: Path, values: str, at: str, fires: bool) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.findings.count([loop_found()])
    [(series, _)] = [
        each for each in series_of(telemetry.render()[0].decode(), "agenteval_loops") if "_total" in each[0]
    ]
    rule = yaml.safe_load(RULES.read_text())["groups"][0]["rules"][1]
    labels = {
        "gen_ai_agent_name": "planner",
        "service_name": "shop",
        "service_version": "1.2.0",
        "agenteval_loop_kind": "identical_call",
    }
    annotations = dict(rule["annotations"])
    for name, value in labels.items():
        annotations = {key: text.replace(f"{{{{ $labels.{name} }}}}", value) for key, text in annotations.items()}
    about = {"severity": "warning", "job": "agenteval", "instance": "127.0.0.1:4319", **labels}
    expected = [{"exp_labels": about, "exp_annotations": annotations}] if fires else []
    tested = {
        "interval": "15s",
        "input_series": [{"series": series, "values": values}],
        "alert_rule_test": [{"eval_time": at, "alertname": "AgentLoops", "exp_alerts": expected}],
    }
    path = tmp_path / "case.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [tested]}))
    promtool("test", "rules", str(path))
