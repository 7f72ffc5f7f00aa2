"""Alarms of a real collector: over HTTP, on /metrics, on the command line, on the page, and after a restart."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_agenteval.proto.v1.evaluation_pb2 import MuteProblemRequest, ResolveProblemRequest
from tests.integration.test_cli_label import agenteval
from tests.integration.test_clock_jumps import JumpingClock
from tests.integration.test_problems import fail, page, stub
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path) as running:
        yield running


def listed(collector: RunningCollector, query: str = "") -> list[Any]:
    found: list[Any] = collector.get(f"/api/v1/alarms{query}")["items"]
    return found


def the_alarm(collector: RunningCollector, state: str = "firing") -> Any:
    return eventually(lambda: next(iter(listed(collector, f"?state={state}")), None))


def gauge(collector: RunningCollector) -> list[str]:
    return [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_alarm{")]


def test_a_new_problem_is_an_alarm_until_it_is_resolved(collector: RunningCollector) -> None:
    fail(collector, 1, "no order 12\x1b[2J")
    alarm = the_alarm(collector)
    [problem] = collector.get("/api/v1/problems")["items"]
    assert (alarm["kind"], alarm["severity"], alarm["problem_id"]) == ("problem", "info", problem["problem_id"])
    assert alarm["examples"] == [trace_id(1).hex()]
    assert (alarm["link"], alarm["until"]) == (f"/problems/{problem['problem_id']}", None)
    [series] = gauge(collector)
    assert series.endswith(" 1.0")
    for label in ('agenteval_alarm_kind="problem"', 'agenteval_alarm_severity="info"', alarm["alarm_id"]):
        assert label in series
    assert (
        problem["title"].replace("\x1b", "\N{REPLACEMENT CHARACTER}")
        in page(collector, "/").text.split("<h1>Problems</h1>")[0]
    )
    assert f'<tr id="{alarm["alarm_id"]}">' in page(collector, "/alarms?state=firing").text
    assert "No such alarms" in page(collector, "/alarms?state=muted").text
    url = f"http://{collector.addresses['web']}"
    shown = agenteval("alarms", "--url", url).stdout
    assert f"agenteval why {trace_id(1).hex()}" in shown
    assert "\x1b" not in shown
    assert json.loads(agenteval("alarms", "--json", "--url", url).stdout)["items"] == [alarm]
    assert "state is 'odd', not one of" in agenteval("alarms", "--state", "odd", "--url", url).stderr

    stub(collector).ResolveProblem(ResolveProblemRequest(problem_id=problem["problem_id"]), timeout=20)
    ended = the_alarm(collector, "ended")
    assert (ended["alarm_id"], gauge(collector)) == (alarm["alarm_id"], [])
    assert ended["until"] >= ended["since"]
    assert agenteval("alarms", "--state", "firing", "--url", url).stdout.startswith("No alarms")


def test_an_alarm_of_a_muted_problem_is_muted_and_does_not_come_back(collector: RunningCollector) -> None:
    fail(collector, 1, "boom")
    alarm = the_alarm(collector)
    muting = MuteProblemRequest(problem_id=alarm["problem_id"], until_unix_nano=4_000_000_000 * 10**9)
    stub(collector).MuteProblem(muting, timeout=20)
    assert the_alarm(collector, "muted")["alarm_id"] == alarm["alarm_id"]
    fail(collector, 2, "boom")
    fail(collector, 3, "another thing is broken")
    # By the time that this one is told, the muted one was looked at, too.
    assert the_alarm(collector)["examples"] == [trace_id(3).hex()]
    assert len(listed(collector)) == 2


def test_an_alarm_outlives_the_process_and_is_told_once(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        fail(collector, 1, "boom")
        alarm = the_alarm(collector)
    with RunningCollector(tmp_path) as collector:
        assert listed(collector) == [alarm]
        fail(collector, 2, "boom")
        # A second example of the same alarm, and no second alarm.
        fail(collector, 3, "another thing is broken")
        eventually(lambda: len(listed(collector)) == 2)
        assert listed(collector)[1]["alarm_id"] == alarm["alarm_id"]


def test_an_alarm_goes_with_the_last_of_its_examples(collector: RunningCollector) -> None:
    fail(collector, 1, "boom")
    the_alarm(collector)
    agenteval("delete", "--session", "s-1", "--yes", "--url", f"http://{collector.addresses['web']}")
    eventually(lambda: listed(collector) == [])


def test_what_works_is_no_alarm(collector: RunningCollector) -> None:
    collector.send(traces(turn(1, "May I have my money back?", "Yes.", session="s-1")))
    collector.scored(trace_id(1).hex())
    fail(collector, 2, "boom")
    assert the_alarm(collector)["examples"] == [trace_id(2).hex()]
    assert len(listed(collector)) == 1


def test_objectives_are_shown_as_a_metric_and_name_the_owner(tmp_path: Path) -> None:
    objectives = {"planner": {"failing": 0.05, "latency": 8, "owner": "team-shop"}}
    with RunningCollector(tmp_path, objectives=objectives) as collector:
        lines = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_objective{")]
    assert sorted(line.rpartition(" ")[2] for line in lines) == ["0.05", "8.0"]
    assert all('agenteval_alarm_owner="team-shop"' in line for line in lines)


def test_a_clock_that_was_set_back_holds_up_no_alarm(tmp_path: Path) -> None:
    clock = JumpingClock()
    with RunningCollector(tmp_path, clock) as collector:
        fail(collector, 1, "boom")
        the_alarm(collector)
        clock.hours = -24
        fail(collector, 2, "another thing is broken")
        eventually(lambda: len(listed(collector, "?state=firing")) == 2)
