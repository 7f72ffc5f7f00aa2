"""The shipped alerts rest on series and labels that the collector shows; promtool takes any name for a series."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from agenteval_collector.emit.telemetry import TelemetryOutput
from agenteval_collector.model.news import News, WorstFinding
from agenteval_collector.model.regressions import Regression
from agenteval_collector.problems import ProblemState
from agenteval_collector.problems.problem import ProblemCount
from prometheus_client.parser import text_string_to_metric_families

from otel_agenteval.finding import Severity
from tests.support.findings import loop_found
from tests.support.prometheus import CONFIGURATION
from tests.support.rendering import rendered
from tests.support.sessions import Sessions, level

RULES = yaml.safe_load((CONFIGURATION / "agenteval.rules.yml").read_text())["groups"][0]["rules"]


class Worse:
    """A version that is worse by an evaluator, and by a kind of finding."""

    def figures(self) -> Iterable[Regression]:
        whose = {"agent": "planner", "version": "1.2.0"}
        yield Regression(**whose, evaluator="task_completion", evidence=25.0)
        yield Regression(**whose, kind="turn_failed", evidence=25.0)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_what_an_alert_names_is_scraped(rule: dict[str, Any]) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    telemetry.evaluations.observe_sessions(Sessions(level("planner", "shop", "agent_reliability", 6, 2)))
    telemetry.findings.take_news(News(counted=[loop_found()]))
    telemetry.findings.take_news(News(traces=[WorstFinding(Severity.ERROR, "planner", "shop", "1.2.0")]))
    telemetry.versions.observe_regressions(Worse().figures)
    telemetry.observe_problems(lambda: [ProblemCount(ProblemState.NEW, Severity.ERROR, "planner", 1)])
    labels: dict[str, set[str]] = {}
    pairs: set[tuple[str, ...]] = set()
    for family in text_string_to_metric_families(rendered(telemetry)):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
            pairs.update((sample.name, *pair) for pair in sample.labels.items())
    series = re.sub(r"\b(?:without|by|on|ignoring|group_left) \([^)]*\)", "", rule["expr"])
    named = set(re.findall(r"\bagenteval_\w+", re.sub(r"\{[^}]*\}", "", series)))
    assert named
    assert named <= labels.keys()
    assert set(re.findall(r"\b(agenteval_\w+)\{(\w+)=\"(\w+)\"\}", series)) <= pairs
    said = {label for text in rule["annotations"].values() for label in re.findall(r"\$labels\.(\w+)", text)}
    assert said <= set.union(*(labels[name] for name in named))
