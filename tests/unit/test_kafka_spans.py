"""Messages of the topic of spans, as we write them and as others do, and their look-up by offset."""

from collections.abc import Sequence
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from agenteval_collector.assembly.stage import AssemblyStage
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime.errand import Errand

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from agenteval_collector.fleet import span_topic
from agenteval_collector.fleet.deleted_traces import DeletedTraces
from agenteval_collector.fleet.span_topic import KafkaLog, SpanMessageHandler


class Message:
    """A message as librdkafka hands it over."""

    def __init__(self, value: bytes | None, headers: list[tuple[str, bytes]] | None = None) -> None:
        self._value = value
        self._headers = headers

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return int(self._value or b"")

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, 7


class Assembly(AssemblyStage):
    """Has room for everything."""

    def __init__(self) -> None:
        self.taken: list[LoggedRequest] = []

    def admit(self) -> None: ...

    def take_request(self, request: LoggedRequest) -> None:
        self.taken.append(request)

    def give_up(self, partitions: object) -> Errand[None]:
        raise NotImplementedError


def taken(message: Any) -> list[LoggedRequest]:
    assembly = Assembly()
    assert SpanMessageHandler("default", assembly, DeletedTraces(60.0)).take_message(0, 3, message)
    return assembly.taken


def test_without_a_header_it_holds_spans() -> None:
    [request] = taken(Message(b"spans"))
    assert (request.signal, request.body, request.received_at) == (Signal.TRACES, b"spans", 7_000_000)


def test_the_header_says_that_it_holds_log_records() -> None:
    [request] = taken(Message(b"logs", [("signal", b"2")]))
    assert request.signal is Signal.LOGS


@pytest.mark.parametrize("header", [b"metrics", b"3", b"", b"\xff"])
def test_a_message_of_no_signal_is_refused(header: bytes) -> None:
    """So that its reader passes it over."""
    with pytest.raises(ValueError, match=r"Signal|invalid literal"):
        taken(Message(b"x", [("signal", header)]))


class Consumer:
    """Finds a message at each place; its content is its number."""

    def __init__(self, _: Any) -> None:
        self._place = 0

    def assign(self, places: Sequence[Any]) -> None:
        self._place = places[0].offset

    def unassign(self) -> None: ...

    def poll(self, timeout: float) -> Message:
        return Message(str(self._place).encode())


def test_a_look_up_that_is_not_read_to_its_end_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_topic, "Consumer", Consumer)
    cluster: Any = SimpleNamespace(options={}, stem="s", spans="spans")
    log = KafkaLog(cluster, "default")
    begun = log.get([1, 2])
    assert next(begun).body == b"1"
    found: list[bytes] = []
    other = Thread(target=lambda: found.extend(each.body for each in log.get([3])), daemon=True)
    other.start()
    other.join(10)
    assert found == [b"3"]
    assert [each.body for each in begun] == [b"2"]
