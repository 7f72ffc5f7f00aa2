"""Severity and mode of findings are as the settings say."""

from typing import Any

import pytest
from agenteval_collector.config.sources import ConfigError, load

from otel_agenteval.finding import Finding, Mode, Severity
from tests.support.findings import finding, loop_found

FAILED = finding(kind="tool_failed")
LOOP = loop_found()
AGENTS = {"tool_failed": {"severity": "info"}, "agents": {"planner": {"tool_failed": {"mode": "alarm"}}}}


def ruled(settings: dict[str, Any], found: Finding) -> list[tuple[Severity, Mode | None]]:
    config = load(environ={}, flags={"findings": settings}).findings
    return [(each.severity, each.mode) for each in config.apply([found])]


@pytest.mark.parametrize(
    ("settings", "found", "expected"),
    [
        pytest.param({}, FAILED, [(Severity.WARNING, None)], id="as it was found"),
        pytest.param({"tool_failed": {"severity": "error"}}, FAILED, [(Severity.ERROR, None)], id="worse"),
        pytest.param({"tool_failed": {"mode": "off"}}, FAILED, [], id="not looked for"),
        pytest.param({"tool_failed": {"mode": False}}, FAILED, [], id="off, as YAML reads it"),
        pytest.param({"tool_failed": {"mode": "record"}}, FAILED, [(Severity.WARNING, None)], id="recorded only"),
        pytest.param({"tool_failed": {"mode": "observe"}}, FAILED, [(Severity.WARNING, Mode.OBSERVE)], id="told"),
        pytest.param({"answer_cut": {"mode": "off"}}, FAILED, [(Severity.WARNING, None)], id="another kind"),
        pytest.param({"identical_call": {"severity": "info"}}, LOOP, [(Severity.INFO, Mode.ALARM)], id="a loop"),
        pytest.param(AGENTS, FAILED, [(Severity.INFO, Mode.ALARM)], id="an agent's own over those of all"),
        pytest.param(AGENTS, finding(kind="tool_failed", agent="b"), [(Severity.INFO, None)], id="another agent"),
        pytest.param(AGENTS, finding(kind="tool_failed", agent=None), [(Severity.INFO, None)], id="no agent's name"),
    ],
)
def test_severity_and_mode_are_as_set(
    settings: dict[str, Any], found: Finding, expected: list[tuple[Severity, Mode | None]]
) -> None:
    assert ruled(settings, found) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"tool_faild": {"mode": "off"}}, "'tool_faild' is no kind of finding", id="a misspelt kind"),
        pytest.param({"tool_failed": {"modus": "off"}}, "unknown key 'findings.tool_failed.modus'", id="a setting"),
        pytest.param({"tool_failed": {"severity": "bad"}}, "findings.tool_failed.severity", id="a severity"),
        pytest.param({"cycle": {"mode": "off"}}, "its mode is set in loops.cycle.mode", id="the mode of a loop"),
        pytest.param({"agents": {"a": {"cycle": {"mode": "off"}}}}, "findings.agents.a: .*loops.cycle", id="of one"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_names_it(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(environ={}, flags={"findings": settings})


def test_an_agents_name_keeps_its_case_in_a_variable() -> None:
    settings = load(environ={"AGENTEVAL_FINDINGS__AGENTS__Poller__TOOL_FAILED__MODE": "off"})
    assert settings.findings.agents["Poller"].kinds["tool_failed"].mode == "off"
