"""Erase in a fleet: the process on duty tells the others before it erases, and they erase, too."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agenteval_collector.app.judge import NoJudgeStage
from agenteval_collector.app.stages import EvaluationParts
from agenteval_collector.config.settings import ProcessRole
from agenteval_collector.emit.feed import Feed, Participants
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.retention_ports import DoomedTraces

from tests.support.eventually import eventually
from tests.support.otlp import trace_id, turn
from tests.support.scoring import Scoring, assembled

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from agenteval_collector.fleet import producer
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.erasing import FleetErasure
from agenteval_collector.fleet.fleet_news import FleetNewsHandler
from agenteval_collector.fleet.news_topic import HeardProcesses, NewsTopic
from agenteval_collector.fleet.offsets import Offsets
from agenteval_collector.fleet.trace_messages import TraceMessageHandler

CLUSTER: Any = SimpleNamespace(news="news")
WANTED = DeletionFilter(session_id="s")
DOOMED = DoomedTraces("d", WANTED, ["s"])
TRACE = trace_id(1).hex()


class Brokers:
    """Take what is sent, but for the times that they refuse."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.taken: list[Any] = []

    def send(self, topic: str, key: bytes, value: bytes, headers: object) -> Future[int]:
        sent: Future[int] = Future()
        if self.refusals:
            self.refusals -= 1
            sent.set_exception(Unavailable("the brokers refuse"))
        else:
            self.taken.append(json.loads(value))
            sent.set_result(1)
        return sent


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    """A deletion of its one session is under way."""
    made = Scoring(tmp_path)
    made.put(assembled(turn(1, "a", "b", session="s")))
    made.store.deletions.add("d", WANTED, None)
    yield made
    made.close()


def erasure(scoring: Scoring, brokers: Any) -> FleetErasure:
    news = NewsTopic(brokers, CLUSTER, HeardProcesses())
    return FleetErasure(scoring.store.deletions, news, 60.0, scoring.clock, scoring.telemetry)


def hearing(scoring: Scoring) -> FleetNewsHandler:
    """A process that evaluates, and hears of deletions."""
    base: Any = SimpleNamespace(
        settings=SimpleNamespace(role=ProcessRole.EVALUATE), clock=scoring.clock, store=scoring.store
    )
    nothing: Any = None
    erased = DeletedTraces(60.0)
    return FleetNewsHandler(
        base=base,
        live_findings=nothing,
        assembly=nothing,
        evaluation=EvaluationParts(scoring.core, scoring.inbox, scoring.stage, NoJudgeStage(), nothing),
        trace_handler=TraceMessageHandler(scoring.inbox, Offsets(), erased),
        erased=erased,
        feed=Feed(scoring.telemetry, Participants(scoring.store), scoring.clock),
        retention=nothing,
    )


def removed(scoring: Scoring) -> int:
    """The number of traces on the deletion's receipt."""
    receipt = scoring.store.deletions.receipt("d")
    assert receipt is not None
    return receipt.removed.get("traces", 0)


def test_nothing_is_erased_before_all_processes_are_told(scoring: Scoring) -> None:
    brokers = Brokers(refusals=1)
    erasing = erasure(scoring, brokers)
    with pytest.raises(Unavailable):
        erasing.erase([DOOMED])
    assert scoring.trace(TRACE) is not None
    assert TRACE in scoring.store.deletions.all_to_erase(), "a process that starts now is not told"
    erasing.erase([DOOMED])
    assert brokers.taken == [{"trace_ids": [TRACE], "session_ids": ["s"], "deletion_id": "d"}]
    assert (scoring.trace(TRACE), removed(scoring)) == (None, 1)


def test_the_receipt_counts_a_trace_whichever_process_erases_it(scoring: Scoring) -> None:
    hearing(scoring).forget([TRACE], ["s"], "d")
    scoring.stage.work_off_inbox(0.0)
    assert (scoring.trace(TRACE), removed(scoring)) == (None, 1)
    erasure(scoring, Brokers()).erase([DOOMED])
    assert removed(scoring) == 1


def test_a_process_erases_as_soon_as_the_store_answers(scoring: Scoring, tmp_path: Path) -> None:
    scoring.stage.start()
    with closing(sqlite3.connect(tmp_path / "agenteval.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE erasures RENAME TO away")
        hearing(scoring).forget([TRACE], ["s"], "d")
        eventually(lambda: "is held up" in (scoring.stage.health or ""))
        connection.execute("ALTER TABLE away RENAME TO erasures")
    eventually(lambda: scoring.trace(TRACE) is None)
    scoring.stage.shutdown()


def test_brokers_that_do_not_answer_hold_up_a_deletion_and_not_for_ever(
    scoring: Scoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "ANSWERED_WITHIN", 0.0)
    silent: Any = SimpleNamespace(send=lambda *message: Future())
    with pytest.raises(Unavailable, match="did not answer within"):
        erasure(scoring, silent).erase([DOOMED])
    assert scoring.trace(TRACE) is not None
