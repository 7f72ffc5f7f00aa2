"""What one of several processes may keep, and what it passes over as another one has kept it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agenteval_collector.evaluation.conversations.linking import Conversations
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.errors import Superseded
from agenteval_collector.stores.store import Store

from otel_agenteval.model import Trace
from tests.support.assembled import assembled
from tests.support.otlp import span, trace_id
from tests.support.scoring import Scoring


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Those of two processes."""
    made = (
        Store(tmp_path / "store.db", SystemClock(), events_of=no_events),
        Store(tmp_path / "store.db", SystemClock(), events_of=no_events),
    )
    yield made
    for each in made:
        each.shutdown()


def test_nothing_is_kept_after_another_process_took_over_until_it_is_taken_again(stores: tuple[Store, Store]) -> None:
    silent, other = stores
    silent.claims.take([0, 1])
    silent.commit(Commit())
    other.claims.take([1])
    for _ in range(2):
        with pytest.raises(Superseded):
            silent.commit(Commit())
    other.commit(Commit())
    silent.claims.give_up([1])
    silent.commit(Commit())
    silent.claims.give_up([0])
    with pytest.raises(Superseded):
        silent.commit(Commit())
    silent.claims.take([0, 1])
    silent.commit(Commit())
    with pytest.raises(Superseded):
        other.commit(Commit())


class Known:
    """A store that knows traces by their revision and offsets."""

    claims = None

    def __init__(self, **known: tuple[int, frozenset[int]]) -> None:
        self._known = known

    def known_traces(self, trace_ids: Sequence[str]) -> Mapping[str, tuple[int, frozenset[int]]]:
        return {each: self._known[each] for each in trace_ids if each in self._known}


def not_stored(store: Any, *traces: Any) -> list[tuple[int, Sequence[int]]]:
    """Revision and offsets of the traces that are left to evaluate."""
    pytest.importorskip("confluent_kafka")
    from agenteval_collector.fleet.partitions import PartitionSessions  # noqa: PLC0415 - an extra

    awaited: Any = SimpleNamespace(waits_for=lambda trace: trace.trace_id != "left")
    own = PartitionSessions(None, store, None, None, awaited)  # type: ignore[arg-type]
    return [(each.revision, each.offsets) for each in own.not_stored(own.still_own(traces))]


def of_requests(revision: int, *offsets: int, trace_id: str = "t") -> Any:
    trace = assembled(span(1, 1))
    trace.trace_id, trace.revision, trace.offsets = trace_id, revision, offsets
    return trace


def test_a_trace_that_comes_again_is_passed_over() -> None:
    once = of_requests(1, 1, 2)
    assert not_stored(Known(), once, once) == [(1, (1, 2))]
    assert not_stored(Known(t=(1, frozenset({1, 2}))), once) == []


def test_a_trace_of_a_partition_that_has_left_is_passed_over() -> None:
    assert not_stored(Known(), of_requests(1, 1, trace_id="left")) == []


def test_an_older_revision_does_not_replace_a_newer_one() -> None:
    assert not_stored(Known(t=(2, frozenset({1, 2}))), of_requests(1, 1)) == []


def test_more_of_a_trace_under_a_revision_that_is_taken_becomes_the_next_one() -> None:
    assert not_stored(Known(t=(1, frozenset({1}))), of_requests(1, 1, 2)) == [(2, (1, 2))]


def test_the_next_revision_stays_what_it_is() -> None:
    assert not_stored(Known(t=(1, frozenset({1}))), of_requests(2, 1, 2)) == [(2, (1, 2))]


def test_a_session_is_looked_for_once_though_it_is_asked_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for, find = list[str](), Conversations.place

    def place(self: Conversations, trace: Trace, revision: int, commit: Commit) -> Any:
        looked_for.append(trace.trace_id)
        return find(self, trace, revision, commit)

    def hands_on(self: EverySession, trace: AssembledTrace, session_of: Callable[[], str]) -> bool:
        return session_of() != trace.trace_id

    monkeypatch.setattr(Conversations, "place", place)
    monkeypatch.setattr(EverySession, "hands_on", hands_on)
    scoring = Scoring(tmp_path / "scoring.db")
    scoring.put(assembled(span(1, 1)), assembled(span(2, 1)))
    assert looked_for == [trace_id(1).hex(), trace_id(2).hex()]
    scoring.close()
