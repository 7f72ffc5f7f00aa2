"""Carry out a deletion: from memory and the store, then from the log, then from what SQLite leaves of both."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from agenteval_collector.model.deletion import Doomed
from agenteval_collector.retention.ports import Deletions, File, Pipeline

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Insist(Protocol):
    """Calls a step until it no longer raises RetryableError."""

    def __call__(self, attempt: Callable[..., T], /, *args: object) -> T: ...


class Deleting:
    """Every step is small, kept, and may be done again: a crash in the middle costs nothing but time."""

    def __init__(self, deletions: Deletions, pipeline: Pipeline, files: Sequence[File]) -> None:
        self._deletions = deletions
        self._pipeline = pipeline
        self._files = files

    def delete(self, deletion_id: str, doomed: Doomed, insist: Insist) -> None:
        """Delete what is doomed, to the last byte, and complete the receipt."""
        session_ids = insist(self._deletions.sessions_of, doomed)
        while insist(self._pipeline.erase, deletion_id, doomed, session_ids):
            pass
        self.erase_from_log(deletion_id, insist)
        insist(self._deletions.forget_pieces)
        for file in self._files:
            at: int | None = 0
            while at is not None:
                at = insist(file.scrub, at)
        insist(self._deletions.done, deletion_id)
        receipt = insist(self._deletions.receipt, deletion_id)
        logger.info("deletion %s is done: %s", deletion_id, None if receipt is None else dict(receipt.removed))

    def erase_from_log(self, deletion_id: str, insist: Insist) -> None:
        """Erase from the log what is erased from the store. At a start it comes before the log is read again."""
        at: int | None = 0
        while at is not None:
            at, removed = insist(self._pipeline.erase_from_log, at)
            if removed:
                insist(self._deletions.removed, deletion_id, removed)
        insist(self._pipeline.erased)
