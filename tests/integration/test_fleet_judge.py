"""Several processes judge: what one has asked no other one asks, and all draw the same samples."""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from agenteval_collector.evaluation.referrals import sampled

from tests.support.eventually import eventually
from tests.support.judge.completions import Received
from tests.support.judge.judge_server import JudgeServer
from tests.support.otlp import trace_id, traces, turn
from tests.support.postgres import Server
from tests.support.roles import Start, completed
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

SESSIONS = 24


def test_what_was_answered_is_not_asked_again_by_who_takes_a_session_over(start_role: Start) -> None:
    held, asked = threading.Event(), Counter[str]()

    def hold_the_second(received: Received) -> None:
        question = f"{received.body['response_format']} {received.data}"
        asked[question] += 1
        if len(asked) > 1:
            held.wait(60)

    with JudgeServer(responder=hold_the_second) as judge:
        # One question after the other, so that some are answered when the session moves.
        config = {"base_url": judge.url, "concurrency": 1, "timeout": 30}
        receiver, _ = start_role("receive"), start_role("assemble")
        first = start_role("evaluate", judge=config)
        receiver.send(traces(turn(1, "Where is it?", "On its way.", session="s")))
        eventually(lambda: len(asked) == 2, within=60)
        [done, under_way] = asked
        first.stop()
        held.set()
        second = start_role("evaluate", judge=config)
        eventually(lambda: "scored" in (found := statuses(second, 1)) and "pending" not in found, within=90)
        assert asked[done] == 1
        assert {each for each, count in asked.items() if count > 1} <= {under_way}


def test_two_evaluators_draw_by_the_ids_of_sessions_and_choose_canaries_once(
    start_role: Start, postgresql: Server
) -> None:
    with JudgeServer() as judge:
        config = {"base_url": judge.url, "sample": 0.5, "escalate": 0.0, "canaries": 4}
        receiver, _ = start_role("receive"), start_role("assemble")
        evaluators = [start_role("evaluate", judge=config) for _ in range(2)]
        eventually(lambda: [partitions(each) for each in evaluators] == [2, 2], within=60)
        numbers = range(1, SESSIONS + 1)
        for number in numbers:
            receiver.send(traces(turn(number, f"Where is {number}?", "On its way.", session=f"s{number}")))
        for number in numbers:
            completed(receiver, number, within=60)
        drawn = {number for number in numbers if sampled(f"s{number}", 0.5)}
        eventually(lambda: {each for each in numbers if "scored" in statuses(receiver, each)} == drawn, within=60)
        assert {each for each in numbers if "sampled_out" in statuses(receiver, each)} == {*numbers} - drawn
        for each in evaluators:
            look_for_canaries(each)
        chosen = [row for [row] in postgresql.execute("SELECT trace_id FROM agenteval.judge_canaries")]
        assert len(chosen) == 4
        assert {*chosen} <= {trace_id(number).hex() for number in drawn}


def statuses(collector: RunningCollector, number: int) -> set[str]:
    """The statuses of what the judge says of a trace."""
    document: Mapping[str, Any] = collector.get(f"/api/v1/traces/{trace_id(number).hex()}") or {"outcomes": []}
    return {each["status"] for each in document["outcomes"] if each["method"] == "llm"}


def partitions(collector: RunningCollector) -> int:
    pipeline: Any = collector.service.pipeline
    [reader] = [each for each in pipeline.components if each.name == "traces"]
    return len(reader._offsets.partitions)


def look_for_canaries(collector: RunningCollector) -> None:
    """Have the judge look now for what is to be asked again."""
    pipeline: Any = collector.service.pipeline
    pipeline.evaluation.canaries._next = 0.0
    pipeline.evaluation.canaries.due()
