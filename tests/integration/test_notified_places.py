"""Notifications as Slack and a mail server get them: a person who does not know the agent reads what happened."""

import re
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.emit.notifications import alarms_text, alarms_title
from agenteval_collector.model.alarms import AgentAlarm, AlarmKey, AlarmKind, AlarmState, DeployedAgent

from tests.integration.test_notifications import listening
from tests.integration.test_problems import fail
from tests.support.eventually import eventually
from tests.support.mail_server import taking_mail
from tests.support.running_collector import RunningCollector

pytest.importorskip("apprise", reason="needs the extra [notify]")

from agenteval_collector.emit.apprise_courier import AppriseCourier

PAGE = "https://eval.example.org"
START = 1_790_000_000 * 1_000_000_000


def tool_alarm(**changes: Any) -> AgentAlarm:
    """A tool of a shop's agent fails, as the collector says it."""
    fields: dict[str, Any] = {
        "alarm_id": "00f1" * 4,
        "key": AlarmKey(DeployedAgent("prod", "shop", "support"), AlarmKind.TOOL_FAILING, "find_order"),
        "severity": AlarmKind.TOOL_FAILING.severity,
        "owner": "team-shop",
        "state": AlarmState.FIRING,
        "since": START,
        "until": None,
        "title": "support: tool find_order fails more often than usual",
        "evidence": "31% of the last traces failed, usually 0.8% do. Mostly: find_order: 503 <!channel> & more.",
        "problem_id": "ab" * 8,
        "examples": ["1" * 32, "2" * 32],
    }
    return AgentAlarm(**{**fields, **changes})


FACTS = (
    *("support", "find_order", "fails more often than usual", "31%", "usually 0.8%", "warning"),
    *("shop", "prod", "team-shop", "2026-09-21 14:13 UTC", f"{PAGE}/traces/{'1' * 32}", f"{PAGE}/traces/{'2' * 32}"),
    f"{PAGE}/problems/{'ab' * 8}",
)
"""What a person who does not know the agent needs: who, what, how bad, compared with what, where, whose, since when,
and where to look."""


def message() -> tuple[str, str]:
    return alarms_title([tool_alarm()]), alarms_text([tool_alarm()], PAGE)


def test_slack_gets_a_message_with_every_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    slack = pytest.importorskip("apprise.plugins.slack").NotifySlack
    with listening() as place:
        monkeypatch.setattr(slack, "webhook_url", f"http://127.0.0.1:{place.server.server_address[1]}")
        courier = AppriseCourier("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#agents")
        assert courier.send(*message())
        [came] = place.came
        text = str(came)
        assert [fact for fact in FACTS if fact not in text] == []
        assert came["channel"] == "#agents"
        assert "<!" not in text


def test_a_mail_has_every_fact_in_its_subject_and_text() -> None:
    pytest.importorskip("apprise")
    with taking_mail() as (port, came):
        courier = AppriseCourier(f"mailto://127.0.0.1:{port}/?from=eval@example.org&to=ops@example.org&mode=insecure")
        assert courier.send(*message())
        [mail] = came
    assert mail["subject"] == "Firing: support: tool find_order fails more often than usual"
    body = mail.get_body(("plain", "html"))
    assert body is not None
    text = body.get_content()
    assert [fact for fact in FACTS if fact not in text] == []
    assert not re.search(r"\d\.\d{6}Z", text)


def test_a_collector_mails_a_new_problem(tmp_path: Path) -> None:
    with taking_mail() as (port, came):
        address = f"mailto://127.0.0.1:{port}/?from=eval@example.org&to=ops@example.org&mode=insecure"
        with RunningCollector(tmp_path, notify={"urls": [address], "page": PAGE}) as collector:
            fail(collector, 1, "no such order")
            [mail] = eventually(lambda: list(came))
    assert mail["to"] == "ops@example.org"
    assert mail["subject"].startswith("Firing: ")
