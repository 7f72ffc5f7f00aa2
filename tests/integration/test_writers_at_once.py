"""Several processes' writers commit to one schema of PostgreSQL at once, to the same agents, problems and traces."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import Event, News
from agenteval_collector.model.problem import ProblemFilter
from agenteval_collector.runtime.errors import Superseded
from agenteval_collector.stores.engines.ports import Use
from agenteval_collector.stores.engines.postgresql import PostgresSchema
from agenteval_collector.stores.schema import traces
from agenteval_collector.stores.store import Store
from sqlalchemy import func, select

from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.finding import Finding, Mode, Severity
from tests.support.agent_history import HOUR, NOW, error_in, judged, session_of, trace_of
from tests.support.clock import ManualClock
from tests.support.databases import stores_on
from tests.support.findings import loop_found
from tests.support.postgres import Server
from tests.support.store_oracle import added_up, kept_sums

pytestmark = pytest.mark.distributed

WRITERS = 6
STEPS = 40
"""Of each writer."""
ALL = 40
"""Traces that every writer writes: who was silent for long believes that they are still its own."""
OWN = 25
"""Traces that one writer alone writes."""
WITHIN = 120.0


def event_of(found: Finding) -> Event:
    name = f"{found.trace_id}/{found.kind}/{found.span_id}"
    return Event(
        event_id=name,
        session_id=found.session_id,
        trace_id=found.trace_id,
        span_id=found.span_id or "",
        at=found.found_at,
        attributes={},
    )


def events_of(news: News) -> list[Event]:
    return [event_of(each) for each in news.counted]


@pytest.fixture
def on(postgresql: Server) -> Iterator[Server]:
    with stores_on(postgresql):
        yield postgresql


@contextmanager
def stores(on: Server, count: int) -> Iterator[Sequence[Store]]:
    """As many stores, each with connections of its own, as processes have them."""
    with ExitStack() as opened:
        made = []
        for _ in range(count):
            made.append(Store(PostgresSchema(on.url, use=Use.TOGETHER), ManualClock(NOW), events_of=events_of))
            opened.callback(made[-1].shutdown)
        yield made


def together(*work: Callable[[], None]) -> None:
    """Do all of it at once; what one of them raises is raised."""
    with ThreadPoolExecutor(len(work)) as threads:
        for each in [threads.submit(part) for part in work]:
            each.result(WITHIN)


@dataclass
class Writer:
    """Does what the evaluation, the live loops, retention and people do, at random."""

    store: Store
    number: int
    events: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)

    def write(self) -> None:
        chance = random.Random(self.number)
        for _ in range(STEPS):
            match chance.randrange(13):
                case 0 | 1:
                    self._told(self.store.findings.keep([self._loop(chance) for _ in range(2)]))
                case 2:
                    self._erase(chance)
                case 3:
                    self._mark(chance)
                case 4:
                    self.store.deletions.forget_content(NOW + HOUR, 5)
                case 5:
                    self.store.finalize([self._session(self._trace(chance)) for _ in range(3)])
                case _:
                    self._told(self.store.commit(self._commit(chance)))

    def _told(self, news: News) -> None:
        self.events |= {event_of(each).event_id for each in news.counted}

    def _trace(self, chance: random.Random) -> int:
        mine = 1000 * (1 + self.number)
        return chance.choice([chance.randrange(1, ALL), mine + chance.randrange(OWN)])

    def _session(self, trace: int) -> str:
        return f"s-{trace // 3}"

    def _about(self, trace: int) -> dict[str, Any]:
        """What is the same whoever writes a trace; most are of the same agents, versions and hours."""
        version = f"1.{trace % 2}"
        return {"session_id": self._session(trace), "agent": f"agent-{trace % 3}", "service_version": version}

    def _commit(self, chance: random.Random) -> Commit:
        commit = Commit()
        for trace in {self._trace(chance) for _ in range(chance.randrange(1, 12))}:
            about, at = self._about(trace), NOW + trace % 2 * HOUR
            found = [
                error_in(
                    trace,
                    kind="tool_failed",
                    span_id=f"{span:016x}",
                    metadata={"shape": f"shape {chance.randrange(3)}"},
                    found_at=at + chance.randrange(9),
                    severity=chance.choice((Severity.ERROR, Severity.WARNING)),
                    **about,
                )
                for span in range(chance.randrange(3))
            ]
            commit.traces.append(
                trace_of(
                    trace,
                    session=about["session_id"],
                    agent=about["agent"],
                    version=about["service_version"],
                    at=at,
                    revision=chance.randrange(1, 4),
                    found=found,
                    usd=chance.choice((None, 0.25, 0.5)),
                    seconds=chance.choice((1.0, 2.0, 30.0)),
                )
            )
            if chance.random() < 0.5:
                commit.evaluations.append(judged(trace, chance.choice((0.2, 0.9)), evaluated_at=at, **about))
            commit.add(session_of(about["session_id"], about["agent"], at=at))
        return commit

    def _loop(self, chance: random.Random) -> Finding:
        trace = self._trace(chance)
        kind, span = chance.choice((LoopKind.IDENTICAL_CALL, LoopKind.CYCLE)), f"{chance.randrange(2):016x}"
        mode = chance.choice((Mode.OBSERVE, Mode.ALARM))
        told = {"trace_id": f"{trace:032x}", "kind": kind, "span_id": span, "mode": mode, "found_at": NOW}
        return loop_found(**told, **self._about(trace))

    def _erase(self, chance: random.Random) -> None:
        doomed = f"{self._trace(chance):032x}"
        self.erased.add(doomed)
        self.store.deletions.erase([doomed], [])

    def _mark(self, chance: random.Random) -> None:
        with self.store.snapshot() as records:
            known = records.problems(ProblemFilter(), now=NOW, limit=20, cursor=None).items
        if known:
            self.store.problems.resolve(chance.choice(known).key.problem_id, "ann")


def read_events(store: Store, done: threading.Event) -> set[str]:
    """Read the outbox as who sends events does, until all is written and nothing is left."""
    seen: set[str] = set()
    while True:
        was_done = done.is_set()
        some = store.outbox.oldest(10)
        seen |= {each.event_id for each in some}
        store.outbox.remove(some)
        if was_done and not some:
            return seen


def test_sums_are_those_of_all_that_was_written_and_events_miss_nothing(on: Server) -> None:
    with stores(on, WRITERS + 1) as [reading, *writing], ThreadPoolExecutor(1) as other:
        writers = [Writer(store, number) for number, store in enumerate(writing)]
        done = threading.Event()
        seen = other.submit(read_events, reading, done)
        try:
            together(*(each.write for each in writers))
        finally:
            done.set()
        events = seen.result(WITHIN)
        kept, expected = kept_sums(reading), added_up(reading)
    for name, sums in expected.items():
        assert kept[name] == sums, name
    assert len(expected["times"]) > 3
    assert len(expected["problems"]) > 3
    erased = set[str]().union(*(each.erased for each in writers))
    told = set[str]().union(*(each.events for each in writers))
    assert {each for each in told if each[:32] not in erased} <= events <= told
    assert not any("deadlock" in line for line in on.log.read_text().splitlines())


def test_nothing_of_a_process_is_kept_once_another_one_has_its_partitions(on: Server) -> None:
    def count(store: Store) -> int:
        with store.outside.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(traces)).scalar_one())

    with stores(on, 3) as [silent, beside, other]:
        silent.claims.take([0])
        beside.claims.take([1])
        begun, taken = threading.Barrier(3), threading.Event()
        superseded = []

        def commit_for_long(store: Store, first: int) -> None:
            begun.wait(WITHIN)
            numbers = iter(range(first, first + 10_000))
            while not (taken.is_set() and store is beside):
                number = next(numbers)
                try:
                    store.commit(Commit(traces=[trace_of(number, session=f"s-{number}")]))
                except Superseded:
                    superseded.append(number)
                    return

        def take() -> None:
            begun.wait(WITHIN)
            while count(other) < 20:
                pass
            other.claims.take([0])
            taken.set()

        together(lambda: commit_for_long(silent, 1), lambda: commit_for_long(beside, 50_000), take)
        assert len(superseded) == 1
        with silent.outside.reading() as connection:
            kept = [int(each, 16) for each in connection.execute(select(traces.c.trace_id)).scalars()]
    assert max(each for each in kept if each < 50_000) == superseded[0] - 1
