"""The base of everything that has a thread: a bounded inbox, a start, a stop, and its health."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from agenteval_collector.runtime.errors import CollectorError, RetryableError
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.runtime.ports import BoundedQueue, Healthy

P = ParamSpec("P")
T = TypeVar("T")

SHORTEST_WAIT = 0.05
"""Seconds between two attempts at least, whatever the error says, so that no thread spins."""
LAST_STEP = 1.0
"""Seconds that the step under way has to end, after a component has given up."""


def health_of(components: Iterable[Healthy]) -> str | None:
    """Return what holds up the parts that cannot do their work. Return None while every part can."""
    return "; ".join(trouble for component in components if (trouble := component.health) is not None) or None


class Component(ABC):
    """A thread that works off its inbox. Its name stands in its log messages and in its health.

    A subclass gives `run`, which returns once the inbox is closed and empty. It wraps its work on an item in `insist`
    if the disk may refuse it, and in `survive`, so that a defect costs that item and not the thread.
    A component runs once: after a restart, a new one takes up what the old one has left.
    """

    def __init__(self, name: str, inbox: BoundedQueue) -> None:
        self.name = name
        self._queue = inbox
        self._logger = logging.getLogger(type(self).__module__)
        self._giving_up = threading.Event()
        self._refusal: Exception | None = None
        self._thread = threading.Thread(target=self._main, name=f"agenteval-{name}", daemon=True)

    @abstractmethod
    def run(self) -> None:
        """Work until the inbox is closed and empty; on the component's own thread."""

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if it was started before."""
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Work off what waits, for `timeout` seconds at most. Then give up what the disk or a network still refuses.
        Safe before start and twice.

        The step under way gets `LAST_STEP` seconds more; if `timeout` is 0, it gets none.
        """
        self._queue.close()
        if self.alive:
            self._thread.join(timeout)
            self._giving_up.set()
            self._thread.join(LAST_STEP if timeout else 0.0)

    @property
    def alive(self) -> bool:
        """True while its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """The number of items that wait for it; an instant's value."""
        return len(self._queue)

    @property
    def health(self) -> str | None:
        """None while it can do its work, else a sentence that says why it cannot. From any thread."""
        if not self.alive:
            return f"{self.name} does not run"
        refusal = self._refusal
        return None if refusal is None else f"{self.name} is held up: {refusal}"

    def insist(self, attempt: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `attempt` until it no longer raises RetryableError. Nothing is lost meanwhile: once queues are full,
        senders wait. After the shutdown the error is raised."""
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

    def survive(self, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Call `step`. Returns False after a defect in it, which costs this step and never the thread. RetryableError
        passes through."""
        try:
            step(*args, **kwargs)
        except RetryableError:
            raise
        except Exception:
            self._logger.exception("%s goes on after an unexpected failure", self.name)
            return False
        return True

    def refused(self, error: Exception) -> None:
        """Note that the component cannot do its work now."""
        # Logged once: a full disk must not be filled with complaints about it.
        if self._refusal is None:
            # An error of our own says what is wrong; of another one nobody knows where it came from.
            unknown = None if isinstance(error, CollectorError) else error
            self._logger.error("%s is held up until this is over: %s", self.name, error, exc_info=unknown)
        self._refusal = error

    def accepted(self) -> None:
        """Note that the component can do its work, again or still."""
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


class Poller(Component):
    """A component whose work does not come by an inbox, but from a clock or from a library: it looks again and again.

    A subclass gives `step`. Between two steps it waits `every` seconds; 0 if a step itself waits.
    """

    def __init__(self, name: str, every: float = 0.0) -> None:
        self._stop: Inbox[None] = Inbox(1)
        super().__init__(name, self._stop)
        self._every = every

    @abstractmethod
    def step(self) -> None:
        """Look once, and do what there is to do; on the component's own thread."""

    @property
    def stopping(self) -> bool:
        """True from the shutdown on."""
        return self._stop.closed

    def run(self) -> None:
        while not self.stopping:
            # A defect that stays must not make the thread spin.
            pause = self._every if self.survive(self.step) else max(self._every, SHORTEST_WAIT)
            if pause:
                self._stop.take(1, pause)
