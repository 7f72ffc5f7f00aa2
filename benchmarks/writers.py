"""Several writers to one schema of PostgreSQL at once: rates, CPU, and the time for which each holds up all others.

The server must be on this machine, and have nothing else to do. The benchmark fills the schema `agenteval` of its
database. One process commits the same number of traces as two, and so on. Each process has sessions of its own; all
processes share agents and problems.

    python -m benchmarks.writers URL [--commits N] [--size TRACES] [--network MS]
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import psycopg
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.stores.engines.ports import Use
from agenteval_collector.stores.engines.postgresql import PostgresSchema
from agenteval_collector.stores.store import Store
from sqlalchemy import Engine, event

from benchmarks.commits import filled, server_cpu

WRITERS: Final = (1, 2, 4, 8)
WARMING: Final = 6
"""Commits of a process before those that count. They prepare the statements."""
WITHIN: Final = 300.0
"""Seconds that a step may take. It takes less, even on a machine that others use as well."""


@dataclass(slots=True)
class Times:
    """Seconds of a process: in commits, of CPU, and with the sums locked, which holds up all other processes."""

    commits: float = 0.0
    locked: float = 0.0
    cpu: float = 0.0


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--commits", type=int, default=96)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--network", type=float, default=0.0, help="ms of a round trip, beside the real one")
    given = parser.parse_args()
    Store(
        PostgresSchema(given.url, use=Use.TOGETHER), SystemClock(), events_of=no_events
    ).shutdown()  # The tables are there.
    first = 0
    for writers in WRITERS:
        print(_measured(given.url, writers, given.commits // writers, given.size, first, given.network))
        first += writers * (WARMING + given.commits) * given.size


def _measured(url: str, writers: int, commits: int, size: int, first: int, network: float) -> str:
    context = multiprocessing.get_context("spawn")
    pipes = []
    for number in range(writers):
        ours, theirs = context.Pipe()
        begin = first + number * (WARMING + commits) * size
        context.Process(target=_write, args=(theirs, url, commits, size, begin, network), daemon=True).start()
        pipes.append(ours)
    _answers(pipes)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as asked:
        used, started = server_cpu(asked), time.perf_counter()
        _tell(pipes)
        times: list[Times] = _answers(pipes)
        seconds, used = time.perf_counter() - started, server_cpu(asked) - used
    _tell(pipes)
    count = writers * commits
    taken, locked, cpu = (sum(getattr(each, name) for each in times) for name in ("commits", "locked", "cpu"))
    return (
        f"{writers} writers: {count * size / seconds:.0f} traces/s; a commit takes {1e3 * taken / count:.1f} ms, "
        f"and holds up others for {1e3 * locked / count:.1f} ms ({locked / taken:.0%}); "
        f"the sums are locked for {locked / seconds:.0%} of the time; "
        f"CPU of a trace: {1e6 * used / count / size:.0f} us of the server, {1e6 * cpu / count / size:.0f} us of ours"
    )


def _write(pipe: Connection, url: str, commits: int, size: int, first: int, network: float) -> None:
    """Commit in a process of its own when the parent says so. The store stays open until the parent says so again."""
    database = PostgresSchema(url, use=Use.TOGETHER)
    store = Store(database, SystemClock(), events_of=no_events)
    sessions = iter(range(first, first + (WARMING + commits) * size))
    for _ in range(WARMING):
        store.commit(filled(sessions, size))
    prepared = [filled(sessions, size) for _ in range(commits)]
    times = Times()
    assert database.writer_locks is not None
    _wait_for_network(store, network / 1e3)
    _watch_lock(store, database.writer_locks.lock_sums, times)
    pipe.send(None)
    pipe.recv()
    started, cpu = time.perf_counter(), time.process_time()
    for commit in prepared:
        store.commit(commit)
    times.commits, times.cpu = time.perf_counter() - started, time.process_time() - cpu
    pipe.send(times)
    pipe.recv()
    store.shutdown()


def _watch_lock(store: Store, lock: str, times: Times) -> None:
    """Add up the time from each lock of the sums to the end of its transaction."""
    begun: list[float] = []

    def statement(_connection: object, _cursor: object, sql: str, *_rest: object) -> None:
        if sql == lock:
            begun.append(time.perf_counter())

    def end(_connection: object) -> None:
        if begun:
            times.locked += time.perf_counter() - begun.pop()

    for engine in _engines(store):
        event.listen(engine, "after_cursor_execute", statement)
        _committed(engine, end)


def _wait_for_network(store: Store, seconds: float) -> None:
    """Wait this long before each statement, as if the server were far away."""

    def wait(*_: object) -> None:
        if seconds:
            time.sleep(seconds)

    for engine in _engines(store):
        event.listen(engine, "before_cursor_execute", wait)
        event.listen(engine, "commit", wait)


def _committed(engine: Engine, then: Callable[[object], None]) -> None:
    dialect: Any = engine.dialect
    commit = dialect.do_commit

    def do_commit(connection: object) -> None:
        commit(connection)
        then(connection)

    dialect.do_commit = do_commit


def _engines(store: Store) -> Sequence[Engine]:
    return [store._pipeline.engine, store._durable.engine]


def _tell(pipes: Sequence[Any]) -> None:
    for pipe in pipes:
        pipe.send(None)


def _answers(pipes: Sequence[Any]) -> list[Any]:
    found = []
    for pipe in pipes:
        if not pipe.poll(WITHIN):
            raise TimeoutError(f"a writer has not answered for {WITHIN:.0f} s")
        found.append(pipe.recv())
    return found


if __name__ == "__main__":
    main()
