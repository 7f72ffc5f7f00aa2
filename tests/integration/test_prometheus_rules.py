import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.emit.telemetry import TelemetryOutput
from agenteval_collector.model.news import News, WorstFinding
from agenteval_collector.model.regressions import Regression
from agenteval_collector.model.sessions import SessionLevel
from agenteval_collector.problems import ProblemState
from agenteval_collector.problems.problem import ProblemCount
from prometheus_client.parser import text_string_to_metric_families

from otel_agenteval.finding import Severity
from tests.support.findings import loop_found
from tests.support.prometheus import CONFIGURATION
from tests.support.rendering import rendered
from tests.support.sessions import Sessions, level

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
            for sample in (each for each in family.samples if not each.name.endswith("_created")):
                labels = {"job": "agenteval", "instance": "127.0.0.1:4319", **sample.labels}
                notation = ",".join(f'{name}="{value}"' for name, value in labels.items() if value)
                series.append((f"{sample.name}{{{notation}}}", sample.value))
    assert series, "a rule test passes on series that do not exist"
    return series


def scraped(*levels: SessionLevel) -> list[tuple[str, float]]:
    """The session gauges as the collector shows them, each a series in Prometheus' notation and its value."""
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.evaluations.observe_sessions(Sessions(*levels))
    return series_of(rendered(telemetry), "agenteval_sessions")


def run_rule(directory: Path, levels: tuple[SessionLevel, ...], at: str, expected: list[dict[str, Any]]) -> None:
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
    levels = (level("planner", "shop", "agent_reliability", active, low),)
    run_rule(tmp_path, levels, "6m", [fired(low)] if fires else [])


def test_the_rule_waits_five_minutes(tmp_path: Path) -> None:
    levels = (level("planner", "shop", "agent_reliability", 10, 10),)
    run_rule(tmp_path, levels, "4m", [])
    run_rule(tmp_path, levels, "5m", [fired(10)])


def test_the_share_is_of_the_sessions_drawn_at_random_and_of_each_agent_by_itself(tmp_path: Path) -> None:
    levels = (
        level("planner", "shop", None, 20, 0),
        level("planner", "shop", "agent_reliability", 6, 2),
        level("writer", "shop", None, 200, 0),
        level("writer", "shop", "agent_reliability", 10, 5),
        level("writer", "shop", "agent_consistency", 10, 1),
    )
    run_rule(tmp_path, levels, "6m", [fired(5, agent="writer")])


def test_agents_without_a_name_are_watched_too(tmp_path: Path) -> None:
    alert = fired(10, agent="")
    del alert["exp_labels"]["gen_ai_agent_name"]
    run_rule(tmp_path, (level(None, "shop", "agent_reliability", 10, 10),), "6m", [alert])


def alert_of(name: str, labels: dict[str, str], value: str = "") -> dict[str, Any]:
    """The alert as it fires with these labels of its series."""
    [rule] = [rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"] if rule["alert"] == name]
    annotations = dict(rule["annotations"])
    for label, said in labels.items():
        annotations = {key: text.replace(f"{{{{ $labels.{label} }}}}", said) for key, text in annotations.items()}
    annotations = {key: text.replace('{{ printf "%.0f" $value }}', value) for key, text in annotations.items()}
    about = {**rule["labels"], "job": "agenteval", "instance": "127.0.0.1:4319", **labels}
    return {"exp_labels": about, "exp_annotations": annotations}


def run_counters(
    directory: Path, name: str, counters: dict[str, str], at: str, expected: list[dict[str, Any]], up: str = "1x400"
) -> None:
    """Whether the alert fires where counters and `up` have these values, one each 15 s."""
    all_series = {'up{job="agenteval",instance="127.0.0.1:4319"}': up, **counters}
    tested = {
        "interval": "15s",
        "input_series": [{"series": series, "values": values} for series, values in all_series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": expected}],
    }
    path = directory / "case.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [tested]}))
    promtool("test", "rules", str(path))


WHOSE = {"gen_ai_agent_name": "planner", "service_name": "shop", "service_version": "1.2.0"}
BEGINNINGS = [
    pytest.param("_x19 1x400", "5m", "1x400", True, id="its first event"),
    pytest.param("_x99 1x400", "25m", "1x400", True, id="its first event after a while"),
    pytest.param("7x400", "1m", "1x400", False, id="an old collector that is scraped for the first time"),
    pytest.param("_x19 7x400", "5m", "_x19 1x400", False, id="an old collector that is added to a Prometheus"),
    pytest.param("1x19 stale _x400", "6m", "1x400", False, id="a collector that was started anew"),
    pytest.param("_ 1x400", "5m", "0 1x400", False, id="a scrape that failed before"),
]
"""Values of a counter, when they are looked at, values of `up`, and whether a rule on what is new fires."""


@pytest.mark.parametrize(
    ("values", "at", "up", "fires"),
    [
        *BEGINNINGS,
        pytest.param("1x19 2x400", "5m", "1x400", True, id="a further one"),
        pytest.param("1x400", "15m", "1x400", False, id="no further one"),
        pytest.param("1x19 2x400", "18m", "1x400", False, id="the last one was long ago"),
    ],
)
def test_the_rule_tells_of_loops(tmp_path: Path, values: str, at: str, up: str, fires: bool) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.findings.take_news(News(counted=[loop_found()]))
    [(series, _)] = series_of(rendered(telemetry), "agenteval_loops")
    alert = alert_of("AgentLoops", {**WHOSE, "agenteval_loop_kind": "identical_call"})
    run_counters(tmp_path, "AgentLoops", {series: values}, at, [alert] if fires else [], up)


def problem_series(state: str = "new", severity: Severity = Severity.ERROR) -> str:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.observe_problems(lambda: [ProblemCount(ProblemState(state), severity, "planner", 1)])
    found = series_of(rendered(telemetry), "agenteval_problems")
    [series] = [series for series, _ in found if f'problem_state="{state}"' in series]
    return series


@pytest.mark.parametrize(
    ("values", "at", "up", "state", "fires"),
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
        pytest.param("_x79 3x400", "21m", "0x79 1x400", "new", False, id="a collector that comes back"),
    ],
)
def test_the_rule_tells_of_problems_that_are_new_or_come_back(
    tmp_path: Path, values: str, at: str, up: str, state: str, fires: bool
) -> None:
    about = {
        "gen_ai_agent_name": "planner",
        "agenteval_problem_state": state,
        "agenteval_problem_severity": "error",
    }
    expected = [alert_of("AgentProblem", about)] if fires else []
    run_counters(tmp_path, "AgentProblem", {problem_series(state): values}, at, expected, up)


def test_a_warning_is_no_problem_to_be_alerted_of(tmp_path: Path) -> None:
    series = problem_series(severity=Severity.WARNING)
    run_counters(tmp_path, "AgentProblem", {series: "0x79 1x400"}, "21m", [])


def trace_series(severity: Severity | None) -> str:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.findings.take_news(News(traces=[WorstFinding(severity, "planner", "shop", "1.2.0")]))
    [(series, _)] = series_of(rendered(telemetry), "agenteval_traces")
    return series


@pytest.mark.parametrize(
    ("errors", "others", "fires"),
    [
        pytest.param("0x20 8x200", "0x20 1x200", False, id="nine traces are too few even if nearly all have errors"),
        pytest.param("0x20 3x200", "0x20 7x200", False, id="three of ten may be chance"),
        pytest.param("0x20 5x200", "0x20 6x200", True, id="five of eleven are not"),
        pytest.param("0x20 19x200", "0x20 81x200", False, id="19 of 100 may be chance"),
        pytest.param("0x20 22x200", "0x20 81x200", True, id="22 of 103 are not"),
        pytest.param("50x200", "20x200", False, id="long ago"),
    ],
)
def test_the_rule_tells_of_traces_with_errors(tmp_path: Path, errors: str, others: str, fires: bool) -> None:
    counters = {trace_series(Severity.ERROR): errors, trace_series(None): others}
    # 20 samples of 15 s before, 5 min of `for`; increase() makes of what it saw in 30 min a little more.
    count = f"{round(int(errors.rsplit(maxsplit=1)[-1].split('x', maxsplit=1)[0]) * 120 / 119)}"
    expected = [alert_of("AgentTracesWithErrors", WHOSE, count)] if fires else []
    run_counters(tmp_path, "AgentTracesWithErrors", counters, "31m", expected)


class Worse:
    """A version that is worse by an evaluator."""

    def figures(self) -> Iterable[Regression]:
        yield Regression(agent="planner", version="1.2.0", evaluator="task_completion", evidence=1.0)


@pytest.mark.parametrize(
    ("evidence", "fires"),
    [pytest.param("1x40 19.9x400", False, id="not enough"), pytest.param("1x40 20x400", True, id="enough")],
)
def test_the_rule_tells_of_a_version_that_is_worse(tmp_path: Path, evidence: str, fires: bool) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.versions.observe_regressions(Worse().figures)
    [(series, _)] = series_of(rendered(telemetry), "agenteval_regression")
    about = {"gen_ai_agent_name": "planner", "service_version": "1.2.0", "gen_ai_evaluation_name": "task_completion"}
    alert = alert_of("AgentVersionWorse", about)
    said = alert["exp_annotations"]
    said["summary"] = said["summary"].replace("{{ $labels.agenteval_finding_kind }}", "")
    run_counters(tmp_path, "AgentVersionWorse", {series: evidence}, "15m", [alert] if fires else [])
