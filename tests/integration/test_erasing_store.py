"""The store after traces and sessions were erased, compared with one that never had them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.judge_jobs import Answer, JudgeJob
from agenteval_collector.model.labels import Label
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.schema import metadata
from agenteval_collector.stores.store import Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from otel_agenteval.finding import Severity
from tests.integration.test_store import hex_id, record, score, session_update
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.findings import finding
from tests.support.otlp import START

pytestmark = pytest.mark.databases

OWN = {"deletions", "erasures", "progress"}

trace = st.tuples(st.integers(0, 3), st.sampled_from(["1", "2"]), st.sampled_from(["a", "b"]), st.booleans())
"""Its session, version and kind of error, and whether a label is given."""


@given(given=st.lists(trace, max_size=8), doomed=st.sets(st.integers(0, 3), min_size=1))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_other_sessions_are_as_if_the_erased_ones_had_never_been(
    given: list[tuple[int, str, str, bool]], doomed: set[int]
) -> None:
    numbered = list(enumerate(given, 1))
    with TemporaryDirectory() as folder:
        store, other = (
            Store(database_in(Path(folder), name), ManualClock(), events_of=no_events) for name in ("a.db", "b.db")
        )
        fill(store, numbered)
        fill(other, [(number, each) for number, each in numbered if each[0] not in doomed])
        trace_ids = [hex_id(number) for number, each in numbered if each[0] in doomed]
        store.deletions.erase(trace_ids, [f"s{each}" for each in doomed])
        assert rows(store) == rows(other)
        for each in (store, other):
            each.shutdown()


def fill(store: Store, traces: list[tuple[int, tuple[int, str, str, bool]]]) -> None:
    for number, (session, version, error, labelled) in traces:
        session_id, trace_id = f"s{session}", hex_id(number)
        found = finding(
            kind="tool_failed", severity=Severity.ERROR, trace_id=trace_id, session_id=session_id, agent="planner",
            found_at=START + number, metadata={"shape": error},
        )  # fmt: skip
        kept: ScoredTrace = record(
            number, session_id=session_id, agent="planner", service_version=version, findings=[found],
            effort=Effort(steps=1, seconds=number / 8, usd=0.5),
        )  # fmt: skip
        update = session_update(session_id)
        store.commit(Commit(traces=[kept], evaluations=[score(number)], sessions={session_id: update}))
        asked = JudgeJob(trace_id=trace_id, session_id=session_id, revision=1, urgent=False, pending=())
        store.answers.keep(trace_id, Answer(reply={}, model="m", temperature=None), asked)
        if labelled:
            store.label(Label(trace_id=trace_id, name="coherence", value=1.0))


def rows(store: Store) -> dict[str, Any]:
    with store.outside.reading() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table))))
            for table in metadata.sorted_tables
            if table.name not in OWN
        }
