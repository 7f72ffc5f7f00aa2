"""How the thread of a stage goes on when the disk refuses or our own code fails."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from agenteval_collector.runtime.errors import RetryableError

T = TypeVar("T")


class Endurance:
    """Belongs to one thread; `give_up` is for the one who stops it."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._stopping = threading.Event()

    def insist(self, attempt: Callable[[], T]) -> T:
        """Try until it no longer raises RetryableError: nothing is lost meanwhile, senders wait once queues are full.

        After `give_up` the error is raised.
        """
        while True:
            try:
                return attempt()
            except RetryableError as error:
                self._logger.error("waiting %g s: %s", error.retry_after, error)
                if self._stopping.wait(error.retry_after):
                    raise

    def survive(self, step: Callable[[], None]) -> None:
        """Run `step`; a defect in it costs this step, never the thread. RetryableError passes through."""
        try:
            step()
        except RetryableError:
            raise
        except Exception:
            self._logger.exception("going on after an unexpected failure")

    def give_up(self) -> None:
        """Wait for nothing any more."""
        self._stopping.set()
