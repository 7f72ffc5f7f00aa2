"""Traces that worker processes prepare: what is stored is the same, whatever becomes of the workers."""

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig, Settings
from agenteval_collector.config.sources import load
from agenteval_collector.evaluation.stage import BEHIND
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.model.quarantine import InputKind
from agenteval_collector.runtime.workers import Workers
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.asking import get
from tests.support.assembled import assembled
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn
from tests.support.recordings import logs_of, read_requests, recordings
from tests.support.running_collector import RunningCollector
from tests.support.scoring import Scoring
from tests.support.working import MIB, ScoringAhead, running, workers_of

# A process takes two seconds to start, and ten times that on a busy machine.
pytestmark = pytest.mark.timeout(600)

RECORDINGS = recordings("recorded", "conversations")
SETTLED = 0.3
POISON = "the poison in this trace"


@pytest.fixture(scope="module")
def settings() -> Settings:
    return load(environ={}, flags={})


@pytest.fixture(scope="module")
def workers(settings: Settings) -> Iterator[Workers]:
    with running(workers_of(settings, 2), 2) as ready:
        yield ready


def recorded_traces() -> list[AssembledTrace]:
    """All traces of all recordings, as the assembly hands them on. Some come twice, the second time with more spans."""
    found = list[AssembledTrace]()
    for path in RECORDINGS:
        clock = ManualClock()
        assembler = Assembler(clock, NoTelemetry(), Senders(), AssemblyConfig())
        requests: list[tuple[Signal, bytes]] = [
            (Signal.TRACES, one.SerializeToString()) for one in read_requests(path, ExportTraceServiceRequest)
        ]
        if logs_of(path).exists():
            logs = read_requests(logs_of(path), ExportLogsServiceRequest)
            requests += [(Signal.LOGS, one.SerializeToString()) for one in logs]
        for offset, (kind, body) in enumerate(requests, 1):
            complete = assembler.take_requests([LoggedRequest(offset, "default", kind, clock.now(), body)])
            clock.advance(SETTLED)
            for trace in [*complete, *assembler.due()]:
                assembler.scored(trace.trace_id, trace.revision)
                found.append(trace)
        found += assembler.complete_all()
    return found


def stored(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables."""
    with closing(sqlite3.connect(folder / "agenteval.db")) as store:
        names = [name for [name] in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(store.execute(f'SELECT * FROM "{name}"'), key=repr) for name in names}


def score(scoring: Scoring, traces: Sequence[AssembledTrace]) -> None:
    scoring.earlier.put(traces)
    for trace in traces:
        assert scoring.inbox.take_trace(trace, 0.0)
    while scoring.stage.work_off_inbox(0.0):
        pass


def test_what_is_stored_is_the_same_as_without_workers(tmp_path: Path, workers: Workers) -> None:
    traces = recorded_traces()
    assert len(traces) > 200
    alone, shared = Scoring(tmp_path / "alone", plugged=()), ScoringAhead(tmp_path / "shared", plugged=())
    score(alone, traces)
    shared.read_ahead(tmp_path / "shared", workers)
    score(shared, traces)
    assert shared.scored == alone.scored
    assert shared.emitted == alone.emitted
    alone.close()
    shared.close()
    assert stored(tmp_path / "shared") == stored(tmp_path / "alone")
    assert shared.ahead.taken > 0.9 * len(traces)
    assert workers.replaced == 0


def said(number: int, text: str = "hi", session: str = "s") -> AssembledTrace:
    """A trace of one turn, which comes after those with lower numbers."""
    return assembled(turn(number, text, f"answer {number}", session=session))


def statuses(scoring: Scoring, numbers: Sequence[int]) -> list[str]:
    return [scoring.trace(trace_id(number).hex())["status"] for number in numbers]


def test_a_trace_on_which_workers_die_is_set_aside_and_everything_else_goes_on(
    tmp_path: Path, settings: Settings
) -> None:
    scoring = ScoringAhead(tmp_path, plugged=())
    numbers = range(1, 41)
    with running(workers_of(settings, 2, poison=POISON.encode()), 2) as workers:
        scoring.read_ahead(tmp_path, workers)
        score(scoring, [said(number, POISON if number == 7 else "hi") for number in numbers])
        assert statuses(scoring, [7]) == ["failed"]
        assert statuses(scoring, [number for number in numbers if number != 7]) == ["scored"] * 39
        [item] = scoring.quarantine._store.items()
        assert (item.kind, item.key) == (InputKind.TRACE, trace_id(7).hex())
        assert item.reason == "worker processes died 2 times while they read this trace"
        assert (item.size or 0) > 0
        # With the others at first, then twice by itself.
        assert workers.replaced == 3
        # It is not read again, and the others are prepared as ever.
        eventually(lambda: workers.ready == 2, within=300)
        score(scoring, [said(41), replace(said(7, POISON), revision=2)])
        assert statuses(scoring, [41, 7]) == ["scored", "failed"]
        assert workers.replaced == 3
    scoring.close()


def kill_workers(workers: Workers, kills: int, between: float, done: threading.Event) -> None:
    """Kill a worker so many times, the oldest first, each while it is ready."""
    while workers.replaced < kills and not done.wait(between):
        if workers.ready and (process_ids := workers.process_ids):
            with suppress(ProcessLookupError):
                os.kill(process_ids[workers.replaced % len(process_ids)], signal.SIGKILL)


def check_after_kills(folder: Path, settings: Settings, *, kills: int) -> None:
    """Score conversations while workers are killed: all traces are stored once, and as they are without workers."""
    alone, shared = Scoring(folder / "alone", plugged=()), ScoringAhead(folder / "shared", plugged=())
    done, traces = threading.Event(), list[AssembledTrace]()
    with running(workers_of(settings, 2), 2) as workers:
        shared.read_ahead(folder / "shared", workers)
        killing = threading.Thread(target=kill_workers, args=(workers, kills, 0.05, done))
        killing.start()
        try:
            while killing.is_alive():
                first = len(traces) + 1
                batch = [said(number, f"question {number}", f"s{number % 20}") for number in range(first, first + 256)]
                score(shared, batch)
                traces += batch
        finally:
            done.set()
            killing.join(60)
        assert workers.replaced >= kills
    score(alone, traces)
    assert shared.scored == alone.scored
    assert len(shared.scored) == len(set(shared.scored)) == len(traces)
    assert shared.quarantine._store.items() == []
    assert shared.ahead.taken > 0
    alone.close()
    shared.close()
    after = stored(folder / "shared")
    assert {name: len(rows) for name, rows in after.items()} == {
        name: len(rows) for name, rows in stored(folder / "alone").items()
    }


def test_nothing_is_lost_or_doubled_where_workers_are_killed(tmp_path: Path, settings: Settings) -> None:
    check_after_kills(tmp_path, settings, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled_by_many_kills(tmp_path: Path, settings: Settings) -> None:
    # Each kill costs the start of a process; WORKER_KILLS=100 takes half an hour.
    check_after_kills(tmp_path, settings, kills=int(os.environ.get("WORKER_KILLS", "10")))


def test_workers_start_once_traces_have_waited_for_a_while(tmp_path: Path, settings: Settings) -> None:
    scoring, workers = ScoringAhead(tmp_path, plugged=()), workers_of(settings, 2)
    scoring.read_ahead(tmp_path, workers)
    try:
        # As many as one process can do, however long it takes.
        for _ in range(3):
            scoring.clock.advance(60)
            score(scoring, [said(number) for number in range(1, 50)])
        assert not workers.process_ids
        for number in range(50, 500):
            assert scoring.inbox.take_trace(said(number), 0.0)
        for _ in range(3):
            scoring.stage.work_off_inbox(0.0)
            scoring.clock.advance(BEHIND)
        eventually(lambda: len(workers.process_ids) == 2, within=300)
    finally:
        workers.shutdown()
        scoring.close()


def test_all_tenants_of_a_collector_share_its_workers_and_outlive_them(tmp_path: Path) -> None:
    keys = [{"key": name, "name": name, "tenant": name} for name in ("one", "two")]
    with RunningCollector(tmp_path, server={"workers": 2, "keys": [*keys, "all"]}) as collector:

        def score_one(name: str, number: int) -> None:
            key = f"Bearer {name}"
            request = traces(turn(number, "hi", "ok", session="s"))
            TraceServiceStub(collector.channel).Export(request, timeout=20, metadata=[("authorization", key)])
            url = f"http://{collector.addresses['web']}/api/v1/traces/{trace_id(number).hex()}"
            eventually(lambda: get(url, headers={"authorization": key}).json().get("status") == "scored", within=300)

        workers = collector.service.pipelines.workers
        assert workers is not None
        workers.start()
        eventually(lambda: workers.ready == 2, within=300)
        for name in ("one", "two"):
            score_one(name, 1)
        for process_id in workers.process_ids:
            os.kill(process_id, signal.SIGKILL)
        for name in ("one", "two"):
            score_one(name, 2)
        assert collector.service.ready
        eventually(lambda: workers.ready == 2, within=300)
        page = get(f"http://{collector.addresses['web']}/metrics", headers={"authorization": "Bearer all"}).text
        assert "\nagenteval_collector_workers 2.0\n" in page
        assert "\nagenteval_collector_workers_replaced_total 2.0\n" in page
        assert collector.service._memory.used > workers.resident > 50 * MIB
        process_ids = workers.process_ids
    assert not any(Path(f"/proc/{process_id}").exists() for process_id in process_ids)
