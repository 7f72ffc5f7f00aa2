"""The shipped alert rules, and promtool to try them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.prometheus import CONFIGURATION
from tests.support.shown import TARGET, samples

RULES = CONFIGURATION / "agenteval.rules.yml"


def rules() -> list[dict[str, Any]]:
    """Return the shipped rules."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def run(program: str, *arguments: str) -> None:
    """Run promtool or amtool; fail with what it says."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def series(name: str, **labels: str) -> str:
    """Return the one series of that name and labels that a collector shows, as Prometheus writes it."""
    [found] = [each for each in samples() if each.name == name and labels.items() <= each.labels.items()]
    return written(name, {**found.labels, **TARGET})


def written(name: str, labels: Mapping[str, str]) -> str:
    """Return a series as Prometheus writes it."""
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items() if value) + "}"


def check_alert(
    directory: Path,
    alert: str,
    values: Mapping[str, str],
    at: str,
    fires: Mapping[str, str] | None,
    interval: str = "15s",
) -> None:
    """Check that the alert fires `at` that time, with these labels beside those of the rule, or that it is silent
    (None). `values` are those of series from the beginning on, one each `interval`, in promtool's notation."""
    [rule] = [rule for rule in rules() if rule["alert"] == alert]
    # What its annotations say is tested by itself.
    alone = {key: value for key, value in rule.items() if key != "annotations"}
    path = directory / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "alone", "rules": [alone]}]}))
    expected = [] if fires is None else [{"exp_labels": {**rule["labels"], **fires}}]
    case = {
        "rule_files": [str(path)],
        "evaluation_interval": interval,
        "tests": [
            {
                "interval": interval,
                "input_series": [{"series": name, "values": each} for name, each in values.items()],
                "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": expected}],
            }
        ],
    }
    (directory / "case.yml").write_text(yaml.safe_dump(case))
    run("promtool", "test", "rules", str(directory / "case.yml"))
