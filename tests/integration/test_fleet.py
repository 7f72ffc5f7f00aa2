"""Several processes share the work: Kafka is the log between them, PostgreSQL the store. Real servers, all roles."""

from typing import Any

import pytest
from agenteval_collector.model.deletions import DeletionFilter

from otel_agenteval.finding import Finding
from tests.support.eventually import eventually
from tests.support.looping import root_span, tool_span
from tests.support.otlp import trace_id, traces, turn
from tests.support.roles import Start, completed
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed


@pytest.fixture
def start(start_role: Start) -> Start:
    return start_role


def test_one_process_does_all_over_kafka(start: Start) -> None:
    collector = start()
    collector.send(traces(turn(1, "a", "b", session="s")))
    assert collector.scored(trace_id(1).hex())["output"] == "b"
    eventually(lambda: collector.get("/api/v1/sessions/s"))


def test_each_role_in_a_process_of_its_own(start: Start) -> None:
    receiver, _, _, server = (start(role) for role in ("receive", "assemble", "evaluate", "serve"))
    receiver.send(traces(turn(1, "a", "b", session="s")))
    receiver.send(traces(turn(2, "c", "d", session="s")))
    for number in (1, 2):
        assert completed(server, number)["complete"]
    assert traces_in(server, "s") == 2


def test_a_session_is_whole_whichever_receiver_its_traces_came_through(start: Start) -> None:
    collectors = [start(), start()]
    for number in range(1, 21):
        collectors[number % 2].send(traces(turn(number, f"ask {number}", f"say {number}", session=f"s{number % 3}")))
    for number in range(1, 21):
        completed(collectors[0], number)
    assert [traces_in(collectors[1], f"s{number}") for number in range(3)] == [6, 7, 7]


def test_who_joins_takes_a_share_and_who_leaves_gives_it_back(start: Start) -> None:
    first = start()
    first.send(traces(turn(1, "a", "b", session="s")))
    completed(first, 1)
    second = start()
    eventually(lambda: [partitions(each) for each in (first, second)] == [2, 2], within=30)
    for number in range(2, 12):
        second.send(traces(turn(number, f"ask {number}", "b", session="s" if number % 2 else f"t{number}")))
    for number in range(2, 12):
        completed(first, number)
    second.stop()
    eventually(lambda: partitions(first) == 4, within=30)
    first.send(traces(turn(12, "a", "b", session="s")))
    completed(first, 12)
    assert traces_in(first, "s") == 7


def test_a_watcher_hears_of_a_finding_whichever_process_has_it(start: Start) -> None:
    receiver, _, _ = (start(role) for role in ("receive", "assemble", "evaluate"))
    heard = receiver.service.pipeline.feed.subscribe()
    receiver.send(
        traces(
            root_span(1, session="s"), *(tool_span(1, number, gen_ai__conversation__id="s") for number in range(2, 7))
        )
    )

    def told() -> Finding | None:
        items = iter(lambda: heard.get(0.1), None)
        return next((each for each in items if isinstance(each, Finding) and each.kind == "identical_call"), None)

    assert eventually(told).session_id == "s"


def test_what_is_deleted_does_not_come_back(start: Start) -> None:
    first, second = start(), start()
    first.send(traces(turn(1, "a", "b", session="s"), turn(2, "a", "b", session="t")))
    for number in (1, 2):
        completed(second, number)
    receipt = second.service.pipeline.reports.delete(DeletionFilter(session_id="s"), "ann")
    eventually(lambda: second.service.pipeline.reports.receipt(receipt.deletion_id).done_at)
    # Others hear of it a moment later.
    eventually(lambda: second.get(f"/api/v1/traces/{trace_id(1).hex()}") is None)
    # What the topics still have is read again.
    for each in (first, second):
        each.stop()
    third = start()
    third.send(traces(turn(3, "a", "b", session="t")))
    completed(third, 3)
    assert third.get(f"/api/v1/traces/{trace_id(1).hex()}") is None
    assert traces_in(third, "t") == 2


def traces_in(collector: RunningCollector, session_id: str) -> int:
    """The number of traces of a session."""
    document = collector.get(f"/api/v1/sessions/{session_id}")
    return len(document["trace_ids"]) if document else 0


def partitions(collector: RunningCollector) -> int:
    """The number of partitions of traces that a collector evaluates."""
    pipeline: Any = collector.service.pipeline
    [reader] = [each for each in pipeline.components if each.name == "traces"]
    return len(reader._offsets.partitions)
