"""One way to be a stage: a thread of its own with a bounded inbox, that can be started, stopped and asked how it is."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sized
from typing import ParamSpec, Protocol, TypeVar

from agenteval_collector.runtime.errors import RetryableError

P = ParamSpec("P")
T = TypeVar("T")

SHORTEST_WAIT = 0.05
"""Seconds between two attempts at least, whatever the error says: nobody spins."""
LAST_STEP = 1.0
"""Seconds for the step that is under way when a component gives up."""


class Healthy(Protocol):
    """A part of the collector that knows whether it can do its work."""

    @property
    def health(self) -> str | None:
        """None while it can, else a sentence that says why not. From any thread."""


def health_of(parts: Iterable[Healthy]) -> str | None:
    """Return None while every part can do its work, else what holds up those that cannot."""
    return "; ".join(trouble for part in parts if (trouble := part.health) is not None) or None


class BoundedQueue(Sized, Protocol):
    """The items that wait for a component; an `Inbox`, or another bounded queue that can be closed."""

    def close(self) -> None:
        """Take nothing more, and wake the component so that it notices."""


class Component(ABC):
    """A thread that works off its inbox, named in what it says of itself.

    A component gives `run`, which returns once the inbox is closed and empty. What it does for an item it wraps in
    `insist`, where the disk may refuse it, and in `survive`, so that a defect costs that item and not the thread.
    It runs once: a new one takes up what it left.
    """

    def __init__(self, name: str, inbox: BoundedQueue) -> None:
        self.name = name
        self._waiting = inbox
        self._logger = logging.getLogger(type(self).__module__)
        self._giving_up = threading.Event()
        self._refusal: Exception | None = None
        self._thread = threading.Thread(target=self._main, name=f"agenteval-{name}", daemon=True)

    @abstractmethod
    def run(self) -> None:
        """Work until the inbox is closed and empty; on the component's own thread."""

    def start(self) -> None:
        """Start the thread. Raises RuntimeError where it was started before."""
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Finish what waits, within `timeout` seconds, then give up on what is refused. Safe before start and twice."""
        self._waiting.close()
        if self.alive:
            self._thread.join(timeout)
            self._giving_up.set()
            self._thread.join(LAST_STEP)

    @property
    def alive(self) -> bool:
        """True while its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """The number of items that wait for it; an instant's value."""
        return len(self._waiting)

    @property
    def health(self) -> str | None:
        """None while it can do its work, else a sentence that says why it cannot. From any thread."""
        if not self.alive:
            return f"{self.name} does not run"
        refusal = self._refusal
        return None if refusal is None else f"{self.name} is held up: {refusal}"

    def insist(self, attempt: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call until it no longer raises RetryableError: nothing is lost meanwhile, senders wait once queues are full.

        After the shutdown the error is raised.
        """
        while True:
            try:
                result = attempt(*args, **kwargs)
            except RetryableError as error:
                self.refused(error)
                if self._giving_up.wait(max(error.retry_after, SHORTEST_WAIT)):
                    raise
            else:
                self.accepted()
                return result

    def survive(self, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call `step`; a defect in it costs this step, never the thread. RetryableError passes through."""
        try:
            step(*args, **kwargs)
        except RetryableError:
            raise
        except Exception:
            self._logger.exception("%s goes on after an unexpected failure", self.name)

    def refused(self, error: Exception) -> None:
        """Take note that it cannot do its work now."""
        if self._refusal is None:  # Once: a full disk must not be filled with complaints about it.
            self._logger.error("%s is held up until this is over: %s", self.name, error, exc_info=error)
        self._refusal = error

    def accepted(self) -> None:
        """Take note that it can do its work, again or still."""
        if self._refusal is not None:
            self._refusal = None
            self._logger.warning("%s goes on", self.name)

    def _main(self) -> None:
        try:
            self.run()
        except RetryableError as error:
            self._logger.error("%s stops, the next start goes on from the log: %s", self.name, error)
        except Exception:
            self._logger.exception("%s has failed and stops", self.name)
