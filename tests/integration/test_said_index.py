"""Nothing of a deleted text is left in the index of what was said, however often something is deleted."""

from functools import partial
from pathlib import Path

from agenteval_collector.model.deletions import DeletionFilter

from tests.support.eventually import eventually
from tests.support.kept_bytes import all_kept_bytes
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

SEED = "".join(chr(0x2D30 + number) for number in range(24))
"""Letters of a script in which nothing else is written, each of them once."""


def files_with_letters(folder: Path) -> list[str]:
    """The files in which any single letter of the seed is: a piece may be kept without what it begins with."""
    return [name for name, kept in all_kept_bytes(folder).items() if any(letter.encode() in kept for letter in SEED)]


def test_no_piece_of_a_deleted_text_is_in_any_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningCollector(data) as collector:
        for number in range(1, 30):
            said = SEED if number in (3, 7) else f"Where is parcel {number}?"
            collector.send(traces(turn(number, said, "Here it is.", session=f"s-{number}")))
        for number in range(1, 30):
            collector.scored(trace_id(number).hex())
        assert files_with_letters(data)
        for session in ("s-3", "s-7"):
            deletion = collector.service.pipeline.reports.delete(DeletionFilter(session_id=session), None)
            eventually(partial(_is_done, collector, deletion.deletion_id))
        assert files_with_letters(data) == []
        [found] = collector.get("/api/v1/sessions?text=parcel%2012")["items"]
        assert found["session_id"] == "s-12"
    assert files_with_letters(data) == []


def _is_done(collector: RunningCollector, deletion_id: str) -> bool:
    return collector.service.pipeline.reports.receipt(deletion_id).done_at is not None
