"""Work that a component does for others on its own thread."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from agenteval_collector.runtime.errors import Unavailable

T = TypeVar("T")


class Errand(Generic[T]):
    """A function that waits in a component's inbox, and runs on its thread after the items before it."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._done: Future[T] = Future()

    def run(self) -> None:
        """Run the function, unless nobody waits for it any more. Raises nothing. On the component's thread."""
        if not self._done.set_running_or_notify_cancel():
            return
        try:
            self._done.set_result(self._do())
        except Exception as error:  # noqa: BLE001  # `wait` raises it.
            self._done.set_exception(error)

    def wait(self, timeout: float) -> T:
        """Return the function's result, or raise its error. Raises Unavailable where it has not begun within `timeout`
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
