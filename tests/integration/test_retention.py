"""What is too old or too much is forgotten while the collector runs, and its space comes back."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agenteval_collector.config.sources import ConfigError, load
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.model.labels import Label
from agenteval_collector.stores.unasked import FORGOTTEN

from tests.integration.test_deletion import WORD, files_with, spans
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.databases

DAY = 24 * 3600.0
GIB = 1024**3


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def collector(tmp_path: Path, clock: ManualClock) -> Iterator[RunningCollector]:
    # Nothing waits for the clock, which stands still.
    with RunningCollector(tmp_path, clock) as collector:
        yield collector


def score(collector: RunningCollector, clock: ManualClock, *numbers: int) -> None:
    """Let some time pass, until these traces are complete."""

    def are_scored() -> bool:
        clock.advance(1.0)
        documents = [collector.get(f"/api/v1/traces/{trace_id(number).hex()}") for number in numbers]
        return all(document and document["complete"] for document in documents)

    eventually(are_scored)


def trace(collector: RunningCollector, number: int) -> Any:
    return collector.get(f"/api/v1/traces/{trace_id(number).hex()}")


def test_words_go_before_numbers(collector: RunningCollector, clock: ManualClock, tmp_path: Path) -> None:
    collector.send(traces(*spans(1, "s", WORD)))
    score(collector, clock, 1)
    label = Label(trace_id=trace_id(1).hex(), name="coherence", value=0.5, note=f"{WORD} too")
    collector.service.pipeline.reports.label(label)
    before = trace(collector, 1)
    clock.advance(31 * DAY)
    collector.send(traces(turn(2, "hi", "Apfel", session="t")))
    score(collector, clock, 2)
    collector.service.pipeline.retention.look()
    after = trace(collector, 1)
    assert (after["input"], after["output"], trace(collector, 2)["output"]) == (None, None, "Apfel")
    assert {(call["name"], call["arguments"], call["result"]) for call in after["tools_called"]} == {
        ("search", None, None)
    }
    assert [each["score"] for each in after["outcomes"]] == [each["score"] for each in before["outcomes"]]
    assert {each["reason"] for each in (*after["outcomes"], *after["findings"])} == {FORGOTTEN}
    assert [each["kind"] for each in after["findings"]] == [each["kind"] for each in before["findings"]]
    assert [(each["value"], each["note"]) for each in after["labels"]] == [(0.5, None)]
    assert collector.get(f"/api/v1/sessions?text={WORD}")["items"] == []
    assert len(collector.get("/api/v1/problems")["items"]) > 0


def test_numbers_go_with_their_sessions_and_sums(collector: RunningCollector, clock: ManualClock) -> None:
    collector.send(traces(*spans(1, "s", WORD)))
    score(collector, clock, 1)
    clock.advance(401 * DAY)
    collector.send(traces(turn(2, "hi", "Apfel", session="t")))
    score(collector, clock, 2)
    collector.service.pipeline.retention.look()
    assert trace(collector, 1) is None
    assert [each["session_id"] for each in collector.get("/api/v1/sessions")["items"]] == ["t"]
    assert collector.get("/api/v1/problems")["items"] == []
    metrics = collector.get("/metrics")
    for what in ("content", "outcomes"):
        assert f'agenteval_collector_retention_removed_total{{agenteval_reason="{what}"}} 1.0' in metrics


def test_an_age_before_the_epoch_forgets_nothing(tmp_path: Path, clock: ManualClock) -> None:
    with RunningCollector(tmp_path, clock, retention={"content": "200000d", "outcomes": "200000d"}) as collector:
        collector.send(traces(*spans(1, "s", WORD)))
        score(collector, clock, 1)
        collector.service.pipeline.retention.look()
        assert trace(collector, 1)["input"] is not None


MOST = 4_500_000


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "retention", [pytest.param({"max_bytes": MOST}, id="a bound"), pytest.param({}, id="half of the free disk")]
)
def test_above_its_bytes_the_oldest_goes_and_the_files_become_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention: dict[str, int]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * MOST))
    clock = ManualClock()
    with RunningCollector(tmp_path, clock, retention=retention) as collector:
        for begin in (1, 31, 61, 91):
            numbers = range(begin, begin + 30)
            for number in numbers:
                collector.send(traces(turn(number, f"{number} " * 4000, "yes " * 2000, session=f"s{number}")))
            score(collector, clock, *numbers)
            clock.advance(60.0)
        base = collector.service.pipeline.base
        store, requests = base.store, base.storage.requests
        assert isinstance(requests, RequestFile)
        [of_store], of_log = store.files, requests.space
        assert of_store.used_bytes + of_log.used_bytes > MOST
        eventually(lambda: store.checkpoint() > 100)
        collector.service.pipeline.retention.look()
        assert of_store.used_bytes + of_log.used_bytes <= MOST
        assert trace(collector, 120)["output"] is not None
        assert trace(collector, 1) is None or trace(collector, 1)["output"] is None
        of_store.empty_log()
        of_log.empty_log()
        assert sum(file.stat().st_size for file in tmp_path.glob("*.db")) < 1.2 * MOST
    assert files_with(tmp_path, "1 1 1 1 ") == []


@pytest.mark.sqlite
def test_without_a_bound_files_take_half_of_the_disk_before_and_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="agenteval_collector")
    disk = 4 * GIB
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=disk - sum(map(size, tmp_path.glob("*.db"))))
    )
    clock = ManualClock()
    for begin in (1, 31):
        with RunningCollector(tmp_path, clock) as collector:
            numbers = range(begin, begin + 30)
            for number in numbers:
                collector.send(traces(turn(number, f"{number} " * 4000, "yes " * 2000, session=f"s{number}")))
            score(collector, clock, *numbers)
    assert caplog.text.count("log and store take at most 2.0 GiB") == 2


def size(file: Path) -> int:
    return file.stat().st_size


def test_content_is_not_kept_longer_than_outcomes() -> None:
    with pytest.raises(ConfigError, match=r"retention.*content .* is kept longer than outcomes"):
        load(environ={}, flags={"retention": {"content": "10d", "outcomes": "9d"}})
