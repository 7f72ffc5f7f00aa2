"""One session with much that waits does not hold up others, and what its inbox promises holds nonetheless."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agenteval_collector.evaluation.stage import BATCH
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.errand import Errand
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.support.otlp import trace_id, turn
from tests.support.scoring import Scoring, assembled

HEAVY = 5 * BATCH


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    for number in range(HEAVY):
        assert made.inbox.take_trace(of("heavy", number), 0)
    yield made
    made.close()


def of(session: str, number: int) -> AssembledTrace:
    root = turn(number, "May I have my money back?", "Yes, you may.", session=session)
    return assembled(root, resource=Resource().SerializeToString())


def order(scoring: Scoring) -> list[str]:
    while scoring.stage.work_off_inbox(0):
        pass
    return [trace_id for trace_id, _ in scoring.scored]


def test_a_trace_of_another_session_is_scored_with_the_next_batch(scoring: Scoring) -> None:
    scoring.stage.work_off_inbox(0)
    scoring.inbox.take_trace(of("light", HEAVY), 0)
    scoring.stage.work_off_inbox(0)
    assert len(scoring.scored) == 2 * BATCH
    assert (trace_id(HEAVY).hex(), 1) in scoring.scored


def test_the_traces_of_each_session_are_scored_in_the_order_they_came(scoring: Scoring) -> None:
    light = [HEAVY, HEAVY + 1, HEAVY + 2]
    for number in light:
        scoring.inbox.take_trace(of("light", number), 0)
    scored = order(scoring)
    assert [each for each in scored if each in {trace_id(number).hex() for number in light}] == [
        trace_id(number).hex() for number in light
    ]
    assert [each for each in scored if each in {trace_id(number).hex() for number in range(HEAVY)}] == [
        trace_id(number).hex() for number in range(HEAVY)
    ]


def test_an_errand_runs_when_all_that_came_before_it_is_scored_and_nothing_that_came_later(scoring: Scoring) -> None:
    found: list[int] = []
    scoring.inbox.run_errand(Errand(lambda: found.append(len(scoring.scored))))
    for number in range(HEAVY, HEAVY + 3 * BATCH):
        scoring.inbox.take_trace(of("light", number), 0)
    order(scoring)
    assert found == [HEAVY]
