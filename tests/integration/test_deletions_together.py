"""Deletions that wait at the same time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from agenteval_collector.config.settings import RetentionConfig
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.retention import RetentionStage
from agenteval_collector.stores.retention_ports import DoomedTraces
from agenteval_collector.stores.store import Store

from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.databases import database_in

pytestmark = pytest.mark.databases


class Together:
    """An erasure that takes several steps for the deletions in `long`, and keeps which it was given at each step."""

    def __init__(self, *long: str) -> None:
        self.steps: list[list[str]] = []
        self.from_log: list[str] = []
        self._long = long

    def erase(self, deletions: Sequence[DoomedTraces]) -> Sequence[str]:
        self.steps.append(sorted(doomed.deletion_id for doomed in deletions))
        return self._long if len(self.steps) < 3 else ()

    def erase_from_log(self, deletion_id: str, start: int) -> tuple[int | None, Mapping[str, int]]:
        return None, {}

    def mark_erased(self, deletion_id: str) -> None:
        self.from_log.append(deletion_id)

    def erase_older(self, before: int) -> bool:
        return False

    def trim_log(self, received_before: int) -> bool:
        return False


def test_deletions_that_wait_are_erased_together_so_that_none_waits_for_the_others(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    store = Store(database_in(tmp_path), clock, events_of=no_events)
    erasure, wanted = Together("d2"), [f"d{number}" for number in range(5)]
    stage = RetentionStage(
        store.deletions, erasure, (), RetentionConfig(), clock, Counting(),
        new_id=lambda: "", tell=lambda: None, is_on_duty=lambda: True,
    )  # fmt: skip
    for number, deletion_id in enumerate(wanted):
        store.deletions.add(deletion_id, DeletionFilter(session_id=f"s{number}"), None)
    stage.carry_out()
    assert erasure.steps == [wanted, ["d2"], ["d2"]]
    assert erasure.from_log == wanted
    assert all((receipt := store.deletions.receipt(each)) and receipt.done_at is not None for each in wanted)
    store.shutdown()
