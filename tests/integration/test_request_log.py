import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agenteval_collector.ingest.request_file import NewRequest, RequestFile
from agenteval_collector.ingest.request_log import RequestLog
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime.errors import Overloaded, Unavailable

from tests.support.clock import ManualClock

OpenLog = Callable[..., RequestLog]


class Delivered(list[LoggedRequest]):
    """An assembly that keeps requests in order."""

    def take_request(self, request: LoggedRequest) -> None:
        self.append(request)


@pytest.fixture
def delivered() -> Delivered:
    return Delivered()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RequestFile]:
    opened = RequestFile(tmp_path / "log.db")
    yield opened
    opened.shutdown()


@pytest.fixture
def open_log(file: RequestFile, delivered: Delivered) -> Iterator[OpenLog]:
    logs: list[RequestLog] = []

    def make(*, start: bool = True, clock: ManualClock | None = None, max_pending_bytes: int = 1 << 20) -> RequestLog:
        log = RequestLog(file, clock or ManualClock(), delivered, tenant="default", max_pending_bytes=max_pending_bytes)
        logs.append(log)
        if start:
            log.start()
        return log

    yield make
    for log in logs:
        log.shutdown()


def test_an_appended_request_is_read_back_by_another_opening(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log()
    offset = log.append(Signal.TRACES, b"body")[0].result(10)
    log.shutdown()
    again = RequestFile(tmp_path / "log.db")
    [request] = again.read(0)
    again.shutdown()
    assert (request.offset, request.tenant, request.signal, request.body) == (offset, "default", Signal.TRACES, b"body")


def test_requests_are_delivered_in_the_order_of_their_offsets(
    open_log: OpenLog, file: RequestFile, delivered: Delivered
) -> None:
    log = open_log()
    results: list[int] = []

    def send(writer: int) -> None:
        results.extend(log.append(Signal.LOGS, f"{writer}-{i}".encode())[0].result(10) for i in range(50))

    writers = [threading.Thread(target=send, args=(n,)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    log.shutdown()
    assert len(set(results)) == 400
    assert [request.offset for request in delivered] == sorted(results)
    assert {request.offset: request.body for request in delivered} == {
        request.offset: request.body for request in file.read(0)
    }


def test_reading_starts_at_the_offset_asked_for_and_pages_through(open_log: OpenLog, file: RequestFile) -> None:
    log = open_log()
    offsets = [log.append(Signal.TRACES, bytes([n]))[0].result(10) for n in range(10)]
    assert [request.offset for request in file.read(offsets[3], page=2)] == offsets[3:]
    assert [request.offset for request in file.get([offsets[7], offsets[1], 10_000])] == [offsets[1], offsets[7]]


def test_more_than_the_bound_is_refused_as_overload(open_log: OpenLog) -> None:
    log = open_log(start=False, max_pending_bytes=10)
    log.append(Signal.TRACES, b"0123456789")
    with pytest.raises(Overloaded):
        log.append(Signal.TRACES, b"x")


def test_after_shutdown_nothing_is_taken(open_log: OpenLog) -> None:
    log = open_log()
    log.shutdown()
    with pytest.raises(Unavailable):
        log.append(Signal.TRACES, b"x")


def test_offsets_never_repeat_after_trimming(open_log: OpenLog, file: RequestFile) -> None:
    clock = ManualClock()
    log = open_log(clock=clock)
    first = log.append(Signal.TRACES, b"old")[0].result(10)
    clock.advance(100)
    assert file.trim(below=first + 1, older_than=clock.now(), batch=9) == 1
    assert list(file.read(0)) == []
    assert log.append(Signal.TRACES, b"new")[0].result(10) > first


def test_trimming_spares_what_is_young_or_not_scored(open_log: OpenLog, file: RequestFile) -> None:
    clock = ManualClock()
    log = open_log(clock=clock)
    scored = log.append(Signal.TRACES, b"old and scored")[0].result(10)
    unscored = log.append(Signal.TRACES, b"old, not scored")[0].result(10)
    cut = clock.now() + 1
    clock.advance(100)
    log.append(Signal.TRACES, b"young")[0].result(10)
    file.trim(below=unscored, older_than=cut, batch=9)
    assert scored not in [request.offset for request in file.read(0)]
    assert [request.body for request in file.read(0)] == [b"old, not scored", b"young"]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.ingest.request_file import NewRequest, RequestFile
from agenteval_collector.ingest.request_log import RequestLog
from agenteval_collector.model.logged_requests import Signal
class Assembly:
    def take_request(self, request): pass
log = RequestLog(RequestFile(Path(sys.argv[1])), SystemClock(), Assembly(), tenant="default", max_pending_bytes=1 << 20)
log.start()
for n in range(20):
    print(log.append(Signal.TRACES, str(n).encode())[0].result(10), flush=True)
os.kill(os.getpid(), 9)
"""
    process = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "log.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == -9, process.stderr
    acknowledged = [int(line) for line in process.stdout.split()]
    file = RequestFile(tmp_path / "log.db")
    assert [request.offset for request in file.read(0)] == acknowledged
    file.shutdown()


def test_the_file_is_readable_by_its_owner_only(open_log: OpenLog, tmp_path: Path) -> None:
    open_log()
    assert os.stat(tmp_path / "log.db").st_mode & 0o077 == 0


def test_space_of_what_was_trimmed_is_used_again(file: RequestFile, tmp_path: Path) -> None:
    sizes = []
    for _ in range(6):
        for _ in range(4):
            file.commit([NewRequest("default", Signal.TRACES, 1, bytes(50_000))] * 32)
        while file.trim(below=file.last_offset() + 1, older_than=2, batch=64):
            pass
        sizes.append((tmp_path / "log.db").stat().st_size)
    assert sizes[-1] == sizes[-2] <= 1.2 * sizes[1]


def test_a_probe_writes_as_much_as_was_refused(file: RequestFile) -> None:
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file of this process may grow over this size: what a full disk says to a database.
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, most))
    try:
        file.probe(0)
        with pytest.raises(Unavailable, match="cannot be written"):
            file.probe(1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    file.probe(1_000_000)
    assert list(file.read(0)) == []
