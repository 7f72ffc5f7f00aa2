"""What the judge was asked lies in parts by time on PostgreSQL: what is old goes with its part, and not row by row."""

from collections.abc import Iterator

import psycopg
import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.judge_jobs import job_of
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.engines.postgresql import PostgresSchema
from agenteval_collector.stores.store import TRIM_EXCHANGES_EVERY, Store

from otel_agenteval.outcome import Method, SubjectKind
from tests.integration.test_store import hex_id, score
from tests.support.clock import ManualClock
from tests.support.databases import stores_on
from tests.support.eventually import eventually
from tests.support.postgres import Server
from tests.support.referring import PENDING, exchange, judged, judgement

pytestmark = pytest.mark.distributed

HOUR = 3600 * 1_000_000_000
DAY = 24 * HOUR


@pytest.fixture
def on(postgresql: Server) -> Iterator[Server]:
    with stores_on(postgresql):
        yield postgresql


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(on: Server, clock: ManualClock) -> Iterator[Store]:
    store = Store(PostgresSchema(on.url), clock, retention=DAY / 1e9, events_of=no_events)
    yield store
    store.shutdown()


def ask(store: Store, number: int, asked_at: int) -> None:
    """Commit a judgement on a trace; a minute after the last look, a commit also forgets what is old."""
    pending = score(number, name="confidence", method=Method.LLM, outcome=PENDING)
    made = judgement(job_of([pending]), judged(0.5), exchange(asked_at=asked_at), exchange(asked_at=asked_at + 1))
    store.commit(Commit(evaluations=list(made.evaluations), judgements=[made]))


def asked(store: Store) -> list[int]:
    """The numbers of the traces that the judge was asked about, as far as that is kept."""
    with store.snapshot() as records:
        return [number for number in range(100) if records.exchanges(SubjectKind.TRACE, hex_id(number))]


def parts(on: Server) -> int:
    [[count]] = on.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'agenteval.judge_exchanges'::regclass")
    return int(count)


def test_what_is_old_goes_with_its_part(on: Server, store: Store, clock: ManualClock) -> None:
    start = clock.now()
    for number in range(1, 13):
        ask(store, number, start + number * 4 * HOUR)
    assert asked(store) == list(range(1, 13))
    before = parts(on)
    clock.advance((DAY + 25 * HOUR) / 1e9)
    ask(store, 20, clock.now())
    kept = asked(store)
    # Nothing younger than a day is gone, and nothing is older than a day and a part.
    assert {number for number in range(1, 13) if number * 4 >= 25} <= set(kept)
    assert min(kept) * 4 >= 25 - 4
    assert parts(on) < before


def test_the_same_trace_judged_again_is_kept_once_whatever_the_part(store: Store, clock: ManualClock) -> None:
    ask(store, 1, clock.now())
    ask(store, 1, clock.now() + 8 * HOUR)
    with store.snapshot() as records:
        assert [each.asked_at for each in records.exchanges(SubjectKind.TRACE, hex_id(1))] == [
            clock.now() + 8 * HOUR,
            clock.now() + 8 * HOUR + 1,
        ]
    store.deletions.erase([hex_id(1)], [])
    assert asked(store) == []


def test_a_long_reader_holds_up_neither_a_new_part_nor_a_commit(on: Server, store: Store, clock: ManualClock) -> None:
    ask(store, 1, clock.now())
    with psycopg.connect(on.url.replace("+psycopg", "")) as copying:
        copying.execute("LOCK TABLE agenteval.judge_exchanges IN ACCESS SHARE MODE")
        clock.advance(3 * DAY / 1e9)
        ask(store, 2, clock.now())
        assert asked(store) == [1, 2]

    def look_again() -> bool:
        clock.advance(TRIM_EXCHANGES_EVERY)
        ask(store, 2, clock.now())
        return asked(store) == [2]

    eventually(look_again)
