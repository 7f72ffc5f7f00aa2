"""Work that a component does for others on its own thread."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from agenteval_collector.runtime.errors import RetryableError, Unavailable

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Errand(Generic[T]):
    """A function that waits in a component's inbox, and runs on its thread after the items before it."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._done: Future[T] = Future()

    def run(self) -> None:
        """Run the function, unless somebody has waited for it in vain. On the component's thread.

        Raises nothing: `wait` raises the function's error. An unexpected one is logged, too, as not every errand is
        waited for. A function that nobody waits for has to try again by itself.
        """
        if not self._done.set_running_or_notify_cancel():
            return
        try:
            self._done.set_result(self._do())
        except RetryableError as error:
            self._done.set_exception(error)
        except Exception as error:
            logger.exception("an errand has failed")
            self._done.set_exception(error)

    def wait(self, timeout: float) -> T:
        """Return the function's result, or raise its error. Raises Unavailable if it has not begun within `timeout`
        seconds; it never will then."""
        try:
            return self._done.result(timeout)
        except TimeoutError as error:
            # A function that has begun is waited for: its result must not be lost.
            if self._done.cancel():
                raise Unavailable("the collector has too much to do; this is tried again") from error
            return self._done.result()


def without_errands(items: Iterable[T | Errand[object]]) -> tuple[list[T], list[Errand[object]]]:
    """Split the items that a component took from its inbox: those without, and those with an errand."""
    plain: list[T] = []
    errands: list[Errand[object]] = []
    for item in items:
        if isinstance(item, Errand):
            errands.append(item)
        else:
            plain.append(item)
    return plain, errands
