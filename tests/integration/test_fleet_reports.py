"""What is reported from outside goes through a process of any role."""

from typing import Any

import pytest
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.labels import Label
from agenteval_collector.model.runs import RunReport

from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer
from tests.support.otlp import trace_id, traces, turn
from tests.support.postgres import Server
from tests.support.roles import Start, completed
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

ROLES = ("receive", "assemble", "evaluate", "serve")


def test_labels_ends_runs_and_deletions_through_any_role(start_role: Start, postgresql: Server) -> None:
    collectors = [start_role(role) for role in ROLES]
    receiver, *_, server = collectors
    numbers = range(1, len(ROLES) + 1)
    for number in numbers:
        receiver.send(traces(turn(number, "a", "b", session=f"s{number}")))
    for number in numbers:
        completed(server, number, within=60)
    reports = [each.service.pipeline.reports for each in collectors]
    for number, each in zip(numbers, reports, strict=True):
        each.label(Label(trace_id=trace_id(number).hex(), name="task_completion", value=0.5, author="ann"))
        each.report_run(RunReport(task_id="t", run_id=str(number), success=True))
        assert each.end_session(f"s{number}")
    for number in numbers:
        [label] = server.get(f"/api/v1/traces/{trace_id(number).hex()}")["labels"]
        assert label["value"] == 0.5
    assert {session(server, number)["status"] for number in numbers} == {"ended"}
    eventually(lambda: not server.service.pipeline.base.store.live_sessions(), within=60)
    assert postgresql.execute("SELECT count(*) FROM agenteval.run_reports") == [(len(ROLES),)]
    for number, each in zip(numbers, reports, strict=True):
        receipt = each.delete(DeletionFilter(session_id=f"s{number}"), "ann")
        eventually(lambda each=each, receipt=receipt: each.receipt(receipt.deletion_id).done_at, within=30)  # type: ignore[misc]
        assert session(server, number) is None


@pytest.mark.parametrize("role", ["receive", "serve"])
def test_judging_again_through_a_role_that_does_not_judge(start_role: Start, role: str) -> None:
    with JudgeServer() as judge:
        config = {"base_url": judge.url, "sample": 0.0}
        asked = start_role(role, judge=config)
        receiver, *_ = [asked if each == role else start_role(each, judge=config) for each in ROLES]
        receiver.send(traces(turn(1, "Where is it?", "On its way.", session="s")))
        completed(asked, 1, within=60)
        assert "sampled_out" in judged(asked)
        assert asked.service.pipeline.reports.judge_again([trace_id(1).hex()], [], 0).traces == 1
        eventually(lambda: "scored" in judged(asked) and "pending" not in judged(asked), within=60)


def session(collector: RunningCollector, number: int) -> Any:
    return collector.get(f"/api/v1/sessions/s{number}")


def judged(collector: RunningCollector) -> set[str]:
    """The statuses of what the judge says of trace 1."""
    document = collector.get(f"/api/v1/traces/{trace_id(1).hex()}")
    return {each["status"] for each in document["outcomes"] if each["method"] == "llm"}
