"""A trace is evaluated again from the start where the store refuses a look-up, and nothing of it counts twice."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.evaluation.sessions.session import TRACES_KEPT
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.stores.access import TenantConnection, TenantDatabase

from tests.support.otlp import span, trace_id, turn
from tests.support.referring import PENDING, Referring, judged, judgement
from tests.support.scoring import Scoring, assembled

JUDGE: dict[str, Any] = {"judge": {"base_url": "http://127.0.0.1:9/v1"}}
LONG = TRACES_KEPT + 10
"""Traces of a session, more than the window of the newest ones has."""


class Refusing:
    """A store that refuses one look-up of each attempt, and lets each attempt get one look-up further."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self._left = 0
        read = TenantDatabase.reading

        def reading(database: TenantDatabase) -> AbstractContextManager[TenantConnection]:
            if self._left == 0:
                self.refused += 1
                self._left = self.refused
                raise Unavailable("the database is busy", retry_after=0.0)
            self._left -= 1
            return read(database)

        monkeypatch.setattr(TenantDatabase, "reading", reading)


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[tuple[Scoring, Scoring]]:
    """Two collectors with the same long session, all of it judged."""
    made = tuple(Scoring(tmp_path / name, judging=Referring({"confidence": PENDING}), **JUDGE) for name in "ab")
    for each in made:
        each.put(*(said(number, f"answer {number}") for number in range(1, LONG)))
        each.stage.store_judgements([judgement(job, judged(0.75)) for job in each.referred])
        each.referred.clear()
    yield made[0], made[1]
    for each in made:
        each.close()


def said(number: int, answer: str, *, revision: int = 1, spans: int = 1, after: int | None = None) -> AssembledTrace:
    """A trace of some spans, that started behind the trace `after`."""
    root = turn(number, f"question {number}", answer, session="s")
    if after is not None:
        root.start_time_unix_nano = turn(after, "", None).start_time_unix_nano + 1
    late = [span(number, place, parent=1) for place in range(2, 1 + spans)]
    for each in late:
        each.start_time_unix_nano = each.end_time_unix_nano = root.start_time_unix_nano
    return assembled(root, *late, revision=revision, offsets=range(1, revision + 1))


def known(scoring: Scoring) -> dict[str, Any]:
    """Return what the store and the counters know, and what was emitted."""
    return {
        "session": scoring.session("s"),
        "stored": scoring.store.session("s"),
        "traces": [scoring.trace(trace_id(number).hex()) for number in range(1, LONG + 2)],
        "counted": scoring.telemetry.counts,
        "emitted": scoring.emitted,
        "referred": scoring.referred,
    }


def test_a_trace_is_evaluated_as_if_the_store_had_refused_nothing(
    twins: tuple[Scoring, Scoring], monkeypatch: pytest.MonkeyPatch
) -> None:
    calm, refused = twins
    says_more = said(2, "answer 4", revision=2)
    says_the_same = said(3, "answer 3", revision=2, spans=2)
    moves = said(LONG, "answer 6", after=5), said(LONG, "answer 8", revision=2, after=9)
    is_partial = replace(said(LONG + 1, "answer"), missing=1)
    for batch in ([says_more], [says_the_same], moves, [is_partial]):
        if is_partial in batch:  # The session is read from the store.
            calm.restart()
            refused.restart()
        calm.put(*batch)
        with monkeypatch.context() as patch:
            refusing = Refusing(patch)
            refused.put(*batch)
        assert refusing.refused > 0
    assert known(refused) == known(calm)
    assert [job.trace_id for job in calm.referred] == [trace_id(number).hex() for number in (2, LONG, LONG, LONG + 1)]
