"""The shipped alerts rest on series and labels that the collector shows; promtool takes any name for a series."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.model.alarms import AlarmSeverity

from tests.support.alerting import RULES, rules
from tests.support.shown import TARGET, Sample, samples

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
DOCUMENTATION = "https://github.com/otel-agenteval/otel-agenteval/blob/main/docs"


@pytest.fixture(scope="module")
def shown() -> Sequence[Sample]:
    return samples()


def named_in(expression: str) -> set[str]:
    """The series that an expression names."""
    without_labels = re.sub(r"\{[^}]*\}", "", expression)
    grouped = r"\b(?:without|by|on|ignoring|group_left) \([^)]*\)"
    return set(re.findall(r"\bagenteval_\w+", re.sub(grouped, "", without_labels)))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_what_an_alert_names_is_scraped(rule: dict[str, Any], shown: Sequence[Sample]) -> None:
    labels: dict[str, set[str]] = {}
    pairs: set[tuple[str, str, str]] = set()
    for sample in shown:
        labels.setdefault(sample.name, set()).update(sample.labels)
        pairs.update((sample.name, *pair) for pair in sample.labels.items())
    named = named_in(rule["expr"])
    assert named or "up" in rule["expr"]
    assert named <= labels.keys()
    assert set(re.findall(r"\b(agenteval_\w+)\{(\w+)=\"(\w+)\"\}", rule["expr"])) <= pairs
    said = {label for text in rule["annotations"].values() for label in re.findall(r"\$labels\.(\w+)", text)}
    # Series of a named tenant have its label beside their own.
    assert said <= set.union({*TARGET, "agenteval_tenant"}, *(labels[name] for name in named))
    grouped = re.findall(r"\b(?:without|by|on|ignoring) \(([^)]*)\)", rule["expr"])
    assert {label for each in grouped for label in re.split(r",\s*", each)} <= set.union(
        {*TARGET, "agenteval_tenant"}, *(labels[name] for name in named)
    )


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(rule: dict[str, Any]) -> None:
    # An alarm brings its own.
    own = "{{ $labels.agenteval_alarm_severity }}"
    assert rule["labels"] in [{"severity": severity} for severity in ("critical", "warning", "info", own)]
    annotations = rule["annotations"]
    assert set(annotations) == {"summary", "description", "page", "runbook_url"}
    assert len(annotations["summary"]) < 250
    assert annotations["runbook_url"] == f"{DOCUMENTATION}/runbooks/{rule['alert']}.md"


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    alerts = {rule["alert"] for rule in rules()}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == alerts
    index = (RUNBOOKS / "README.md").read_text()
    assert {*re.findall(r"\[`(\w+)`\]\(\1\.md\)", index)} == alerts


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_runbook_answers_the_same_questions_and_quotes_the_rule(rule: dict[str, Any]) -> None:
    page = (RUNBOOKS / f"{rule['alert']}.md").read_text()
    assert page.startswith(f"# {rule['alert']}\n")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings == ["What it means", "How it is computed", "First steps", "When it is false", "Tune or silence"]
    severity = rule["labels"]["severity"]
    assert all(f"`{one}`" in page for one in (AlarmSeverity if severity.startswith("{{") else [severity]))
    assert len(re.findall(r"^\d\. ", page, re.MULTILINE)) == 3, "three first steps"
    assert named_in(rule["expr"]) <= set(re.findall(r"\b(?:agenteval_\w+|up)\b", page))
    if wait := rule.get("for"):
        assert f"for {wait.removesuffix('m')} minutes" in page


def test_the_rules_are_written_so_that_durations_can_be_scaled() -> None:
    assert not re.search(r"\b\d{3,}\b", re.sub(r"#.*", "", "\n".join(each["expr"] for each in rules())))
    assert yaml.safe_load(RULES.read_text())["groups"]
