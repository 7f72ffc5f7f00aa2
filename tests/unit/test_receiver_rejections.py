"""Rejected spans and log records are told in the collector's log: once a minute, without what they quote."""

import json
import logging
from collections.abc import Sequence
from concurrent.futures import Future

import pytest
from agenteval_collector.config.settings import QuotasConfig
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.quotas import Quotas
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.validity import Limits
from agenteval_collector.model.callers import ANONYMOUS
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.memory import MemoryGuard
from google.protobuf.message import Message
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.otlp import log, logs, span, traces

TOO_LARGE = "larger than 1000 bytes (server.max_span_bytes), whatever is cut"


class Taking:
    """A log, an assembly and labels that take everything."""

    def append(self, signal: Signal, body: bytes) -> Sequence[Future[int]]:
        return ()

    def admit(self) -> None: ...

    def label(self, *said: object) -> None: ...


class Receiver:
    """An ingest whose clock is the test's. Spans have 1000 bytes at most."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        taking, memory = Taking(), MemoryGuard(1 << 40, self.clock)
        limits = Limits(request=1 << 20, span=1000)
        self.ingest = Ingest(
            taking,
            taking,
            taking,
            limits,
            Counting(),
            memory,
            RejectionLog(self.clock.monotonic),
            Quotas(QuotasConfig(), self.clock),
        )

    def send(self, request: Message, signal: Signal = Signal.TRACES) -> None:
        self.ingest.take_request(signal, request.SerializeToString(), ANONYMOUS)


def large(number: int) -> Span:
    return span(1, number, text="x" * 1001)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {record.levelno for record in caplog.records} <= {logging.WARNING}
    return [record.message for record in caplog.records]


def test_rejected_spans_are_logged_once_a_minute_with_their_number_and_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver = Receiver()
    for _ in range(4):
        receiver.send(traces(large(1), span(1, 2), large(3), service="shop"))
        receiver.clock.advance(20.0)
    service = "the service of the first is 'shop'"
    assert lines(caplog) == [
        f"2 spans rejected, the span is {TOO_LARGE}: {service}",
        f"6 spans rejected, the span is {TOO_LARGE}: {service}",
    ]


def test_each_reason_has_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    receiver.send(traces(large(1)))
    receiver.send(traces(Span()))
    receiver.send(logs(log(1, 1, body="x" * 1001)), Signal.LOGS)
    assert [line.partition(":")[0] for line in lines(caplog)] == [
        f"1 spans rejected, the span is {TOO_LARGE}",
        "1 spans rejected, the trace id must be 16 bytes and not zero",
        f"1 log records rejected, the log record is {TOO_LARGE}",
    ]


def test_the_service_is_that_of_the_first_rejected_span(caplog: pytest.LogCaptureFixture) -> None:
    request = traces(span(1, 1), service="good")
    request.MergeFrom(traces(large(2), service="bad\nERROR 100%d lost " + "x" * 1000))
    request.MergeFrom(traces(large(3), service="worse"))
    Receiver().send(request)
    [line] = lines(caplog)
    assert line.startswith(rf"2 spans rejected, the span is {TOO_LARGE}: the service of the first is 'bad\nERROR 100%d")
    assert len(line) < 250


def test_what_a_sender_wrote_makes_no_reasons_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    for number in range(10, 15):
        spans = [{"traceId": f"secret%d{number}", "name": "a span"}]
        document = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        receiver.ingest.take_json(Signal.TRACES, json.dumps(document).encode(), ANONYMOUS)
    assert lines(caplog) == ["1 spans rejected, no Span in OTLP/JSON: the service of the first is not known"]


def test_a_request_that_is_kept_whole_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    Receiver().send(traces(span(1, 1)))
    assert lines(caplog) == []
