"""Work that a component does for others on its own thread."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

from agenteval_collector.runtime.errors import Unavailable

T = TypeVar("T")


class Errand(Generic[T]):
    """A function for a component's thread, in its inbox behind all that came before it."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._done: Future[T] = Future()

    def run(self) -> None:
        """Do it, unless nobody waits for it any more; on the component's thread. Raises nothing."""
        if not self._done.set_running_or_notify_cancel():
            return
        try:
            self._done.set_result(self._do())
        except Exception as error:  # noqa: BLE001  # Who waits for it is told.
            self._done.set_exception(error)

    def wait(self, timeout: float) -> T:
        """Return what came of it, or raise what it has raised. Raises Unavailable where it was not begun within
        `timeout` seconds; it never is then."""
        try:
            return self._done.result(timeout)
        except TimeoutError as error:
            if self._done.cancel():
                raise Unavailable("the collector has too much to do; this is tried again") from error
            return self._done.result()


def without_errands(items: Iterable[T | Errand[object]]) -> tuple[list[T], list[Errand[object]]]:
    """Split what a component took from its inbox."""
    plain: list[T] = []
    errands: list[Errand[object]] = []
    for item in items:
        if isinstance(item, Errand):
            errands.append(item)
        else:
            plain.append(item)
    return plain, errands
