"""Every shipped alert reaches a webhook once and resolves, and a near miss of each stays silent.

Real agents, collectors, Prometheus and Alertmanager, with the shipped files; what happens is in
`tests.support.alert_story`.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.support import alertmanager
from tests.support.alert_story import ALARMS as KINDS
from tests.support.alert_story import STUCK, Story, seconds_to_the_webhook
from tests.support.alerting import rules

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("prometheus") is None or alertmanager.executable() is None,
        reason="prometheus or alertmanager is not installed (Debian: apt install prometheus prometheus-alertmanager)",
    ),
]

UNTOLD = ("CollectorPartitionBehind", "CollectorQuarantine")
ALERTS = [rule["alert"] for rule in rules() if rule["alert"] not in UNTOLD]
"""All but the one that a single process never has, and the one for which a collector must die twice."""
EXPECTED = {
    *(("AgentAlarm", agent) for agent in KINDS),
    ("AgentCoverageDrop", "blinded"),
    ("AgentSessionsLow", "gloomy"),
    ("CollectorDiskFull", ""),
    ("CollectorDown", ""),
    ("CollectorScoringBehind", ""),
    ("CollectorSpansRefused", ""),
    ("JudgeBudget", ""),
    ("JudgeDown", ""),
}
"""All that anybody is told: every other agent of the story is a near miss."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    told = Story(tmp_path_factory.mktemp("story"))
    told.tell()
    return told


@pytest.mark.parametrize("name", ALERTS)
def test_the_alert_is_told_once_and_resolves(story: Story, name: str) -> None:
    fired = Counter(str(told.alert["labels"]) for told in story.webhook.told(name, firing=True))
    assert fired
    assert set(fired.values()) == {1}
    resolved = {str(told.alert["labels"]) for told in story.webhook.told(name, firing=False)}
    assert resolved == fired.keys()


def test_near_misses_are_silent(story: Story) -> None:
    assert {(told.name, told.agent) for told in story.webhook.told()} == EXPECTED


def test_an_incident_is_one_alarm_of_its_kind_and_severity(story: Story) -> None:
    told = story.webhook.told("AgentAlarm", firing=True)
    assert {one.agent: one.alert["labels"]["agenteval_alarm_kind"] for one in told} == KINDS
    assert Counter(one.agent for one in told) == Counter(KINDS.keys())
    for one in told:
        labels, annotations = one.alert["labels"], one.alert["annotations"]
        assert labels["severity"] == labels["agenteval_alarm_severity"]
        # The texts are for people: they are in the annotations only.
        assert not {"agenteval_alarm_title", "agenteval_alarm_evidence"} & labels.keys()
        assert one.agent in annotations["summary"]
    [spender] = [one.alert["labels"] for one in told if one.agent == "spender"]
    assert spender["agenteval_alarm_owner"] == "team-money"


def test_every_alert_links_to_a_page_that_is_there(story: Story) -> None:
    assert len(story.pages) >= len(ALERTS) - 3
    assert set(story.pages.values()) == {200}


def test_the_time_from_the_end_of_a_bad_session_to_the_webhook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken, alert = seconds_to_the_webhook(tmp_path)
    assert alert.agent == STUCK.agent
    with capsys.disabled():
        print(f"\nfrom the end of a looping session to the webhook, with the shipped intervals: {taken:.1f} s")
