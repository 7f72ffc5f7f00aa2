"""Wait for the answer of the brokers, and give up after a time limit."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from agenteval_collector.runtime.errors import Unavailable

from tests.support.assembled import assembled
from tests.support.evaluations import evaluation
from tests.support.otlp import span

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from agenteval_collector.fleet import producer
from agenteval_collector.fleet.partitions import PartitionSessions
from agenteval_collector.fleet.trace_messages import SessionTopic

CLUSTER: Any = SimpleNamespace(traces="traces", partition_of=lambda topic, key: 0)


class Brokers:
    """Brokers that answer, or that never do."""

    def __init__(self, *, silent: bool = False) -> None:
        self.sent: list[bytes] = []
        self._silent = silent

    def send(self, topic: str, key: bytes, value: bytes, headers: object = ()) -> Future[int]:
        self.sent.append(key)
        answer: Future[int] = Future()
        if not self._silent:
            answer.set_result(1)
        return answer


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "ANSWERED_WITHIN", 0.0)


def topic(brokers: Any) -> SessionTopic:
    return SessionTopic(brokers, CLUSTER)


def test_all_sessions_are_sent_to_be_judged_again_before_the_first_answer_is_waited_for() -> None:
    outcomes = [[evaluation(session_id=each)] for each in ("a", "b", "a", "c")]
    assert topic(Brokers()).judge_again(outcomes).result(0) == 4
    silent = Brokers(silent=True)
    with pytest.raises(Unavailable, match="did not answer within"):
        topic(silent).judge_again(outcomes)
    assert silent.sent == [b"a", b"b", b"c"]


def test_the_end_of_a_session_is_not_waited_for_for_ever() -> None:
    with pytest.raises(Unavailable, match="did not answer within"):
        topic(Brokers(silent=True)).end_session("s", marked=True)


def test_a_trace_whose_new_process_the_brokers_do_not_answer_for_is_handed_on_again() -> None:
    silent: Any = Brokers(silent=True)
    nothing: Any = None
    own = PartitionSessions(CLUSTER, nothing, silent, nothing, nothing)
    with pytest.raises(Unavailable, match="did not answer within"):
        own.hands_on(assembled(span(1, 1)), "s")
