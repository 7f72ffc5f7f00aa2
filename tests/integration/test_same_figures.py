"""The same recordings give the same figures in whatever order they come, and however many processes share the work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.figures import differences, settled
from tests.support.recordings import logs_of, name_of, read_requests, recordings
from tests.support.roles import Start
from tests.support.running_collector import RunningCollector

FLEET = ("serve", "receive", "receive", "assemble", "assemble", "evaluate", "evaluate")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The figures of one process with its data in files."""
    with RunningCollector(tmp_path_factory.mktemp("one")) as collector:
        send([collector])
        return settled(collector.get)


def requests() -> Iterator[ExportTraceServiceRequest | ExportLogsServiceRequest]:
    """The requests of all recordings, each of a service of its own: many have the same conversations, and users who say
    the same are told apart by nothing else."""
    for path in recordings("corpus"):
        logs = read_requests(logs_of(path), ExportLogsServiceRequest) if logs_of(path).exists() else ()
        for request in (*read_requests(path, ExportTraceServiceRequest), *logs):
            parts = request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_logs
            for part in parts:
                for attribute in part.resource.attributes:
                    if attribute.key == "service.name":
                        attribute.value.string_value = name_of(path)
            yield request


def send(to: list[RunningCollector], *, backwards: bool = False) -> None:
    """Send all requests, to one after the other."""
    every = [*requests()]
    for number, request in enumerate(reversed(every) if backwards else every):
        collector = to[number % len(to)]
        if isinstance(request, ExportTraceServiceRequest):
            collector.send(request)
        else:
            collector.send_logs(request)


@pytest.mark.slow
def test_the_order_of_arrival_changes_nothing(expected: dict[str, Any], tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        send([collector], backwards=True)
        assert differences(expected, settled(collector.get)) == []


@pytest.mark.distributed
def test_the_number_of_processes_changes_nothing(expected: dict[str, Any], start_role: Start) -> None:
    serve, *others = [start_role(role) for role in FLEET]
    send(others[:2])
    assert len(expected) > 300
    assert differences(expected, settled(serve.get)) == []
