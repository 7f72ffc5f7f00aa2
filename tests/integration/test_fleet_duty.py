"""Test that one of several processes shows the shared gauges, pushes events and deletes for all, and who may use its
schema."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest
from agenteval_collector.app.storage import StoreWatch
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import PermanentError, Unavailable
from agenteval_collector.stores.engines.ports import DUTY_LASTS, Use
from agenteval_collector.stores.store import Store

from tests.support.clock import ManualClock
from tests.support.crashing import CollectorProcess
from tests.support.databases import store_settings, stores_on
from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker
from tests.support.otlp import trace_id, traces, turn
from tests.support.otlp_backend import Backend
from tests.support.postgres import Server
from tests.support.roles import Start, completed
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

FACT = "agenteval_sessions_active{"


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = Backend()
    yield backend
    backend.stop()


def test_one_shows_facts_and_another_one_when_it_has_stopped(start_role: Start) -> None:
    collectors = [start_role(role) for role in ("all", "all", "serve")]
    collectors[0].send(traces(turn(1, "a", "b", session="s")))
    for each in collectors:
        completed(each, 1, within=60)
    while collectors:
        [first] = eventually(lambda: [each for each in collectors if shows_facts(each)], within=60)
        collectors.remove(first)
        assert not any(map(shows_facts, collectors))
        first.stop()


def test_who_is_killed_or_stands_still_loses_the_duty(start_role: Start, tmp_path: Path, kafka: Broker) -> None:
    other = start_role()
    eventually(lambda: on_duty(other))
    environ = {
        "AGENTEVAL_LOG__URL": str(other.service.pipeline.base.settings.log.url),
        "AGENTEVAL_STORE__URL": store_settings()["url"],
        "AGENTEVAL_ROLE": "serve",
    }
    (tmp_path / "first").mkdir()
    first = CollectorProcess(tmp_path / "first", environ)
    try:
        other.send(traces(turn(1, "a", "b", session="s")))
        completed(other, 1, within=60)
        other.stop()
        eventually(lambda: FACT in first.get("/metrics"), within=30)
        third = start_role()
        first.send_signal(SIGSTOP)
        eventually(lambda: on_duty(third), within=60)
        first.send_signal(SIGCONT)
        assert FACT not in first.get("/metrics"), "it knows by the time that has passed"
        third.stop()
        eventually(lambda: FACT in first.get("/metrics"), within=30)
        fourth = start_role()
        first.stop(SIGKILL)
        eventually(lambda: shows_facts(fourth), within=30)
    finally:
        first.stop(SIGKILL)


def test_each_event_is_pushed_once_though_several_could(start_role: Start, backend: Backend) -> None:
    export = {"endpoint": backend.endpoint, "protocol": "http/protobuf"}
    first, second = (start_role(export=export) for _ in range(2))
    for number in range(1, 21):
        first.send(traces(turn(number, "a", "b", session=f"s{number}")))
    for number in range(1, 21):
        completed(second, number, within=60)
    store = first.service.pipeline.base.store
    eventually(lambda: not store.outbox.size(), within=30)
    pushed = Counter(ids(backend))
    assert len(pushed) >= 20
    assert {*pushed.values()} == {1}


def test_a_deletion_is_carried_out_whichever_server_is_asked(start_role: Start) -> None:
    collectors = [start_role(), start_role()]
    for number, each in enumerate(collectors, 1):
        each.send(traces(turn(number, "a", "b", session=f"s{number}")))
        completed(each, number, within=60)
        reports = each.service.pipeline.reports
        receipt = reports.delete(DeletionFilter(session_id=f"s{number}"), "ann")
        eventually(lambda at=receipt.deletion_id, by=reports: by.receipt(at).done_at, within=30)  # type: ignore[misc]
        assert each.get(f"/api/v1/traces/{trace_id(number).hex()}") is None


def test_the_lock_goes_with_its_session_and_with_its_silence(
    postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agenteval_collector.stores.engines import postgres_locks  # noqa: PLC0415 - an extra

    monkeypatch.setattr(postgres_locks, "SILENT", 1)
    with stores_on(postgresql):
        first, second = (store_of(postgresql) for _ in range(2))
        assert [first.take_duty(), first.take_duty(), second.take_duty()] == [True, True, False]
        eventually(second.take_duty, within=30)
        with pytest.raises(Unavailable):
            first.take_duty()
        assert not first.take_duty()
        second.shutdown()
        # The server gives the lock back once it has seen that the connection is closed.
        eventually(first.take_duty, within=30)
        first.shutdown()


def test_who_did_not_ask_for_long_is_not_on_duty_any_more(tmp_path: Path) -> None:
    clock = ManualClock()
    store = Store(tmp_path / "agenteval.db", clock, events_of=no_events)
    watch = StoreWatch(store, clock, may_have_duty=True)
    assert not watch.is_on_duty()
    watch.start()
    eventually(watch.is_on_duty)
    watch.shutdown()
    clock.advance(DUTY_LASTS)
    assert not watch.is_on_duty()
    store.shutdown()


def test_a_collector_without_the_log_is_refused_where_several_were(start_role: Start, tmp_path: Path) -> None:
    member = start_role()
    member.send(traces(turn(1, "a", "b", session="s")))
    completed(member, 1, within=60)
    member.stop()
    with pytest.raises(PermanentError, match=r"several processes with log\.url have used this database"):
        RunningCollector(tmp_path / "alone")


def test_nobody_joins_a_collector_without_a_log(
    start_role: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agenteval_collector.stores.engines import postgres_locks  # noqa: PLC0415 - an extra

    monkeypatch.setattr(postgres_locks, "OWNED_WITHIN", 1)
    alone = RunningCollector(tmp_path / "alone")
    with pytest.raises(PermanentError, match=r"a collector without log\.url uses the schema agenteval of"):
        start_role("receive")
    alone.stop()
    start_role("receive")
    with pytest.raises(PermanentError, match=r"another collector uses the schema agenteval of .* share a log"):
        RunningCollector(tmp_path / "alone")


def store_of(server: Server) -> Store:
    """A store that is used together with others."""
    from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415 - an extra

    return Store(PostgresSchema(server.url, "duty", use=Use.TOGETHER), SystemClock(), events_of=no_events)


def shows_facts(collector: RunningCollector) -> bool:
    return FACT in collector.get("/metrics")


def on_duty(collector: RunningCollector) -> bool:
    return collector.service.pipeline.base.is_on_duty()


def ids(backend: Backend) -> Iterator[str]:
    """The ids of the events that have arrived."""
    while not backend.taken["/otlp/v1/logs"].empty():
        request, _ = backend.logs()
        for of_resource in request.resource_logs:
            for of_scope in of_resource.scope_logs:
                for record in of_scope.log_records:
                    yield next(
                        each.value.string_value for each in record.attributes if each.key == "agenteval.event.id"
                    )
