"""The ends of workers of process pools: they run no handlers of `atexit`, and a pool that is left terminates them."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

_POOLS: Final = ("multiprocessing", "billiard")
"""Packages that run workers: Python's, and that of Celery. They are not loaded if nobody uses them."""
_SPAWNED: Final = "--multiprocessing-fork"
"""An argument of the interpreter of each spawned worker."""
TERMINATED_WITHIN: Final = 3.0
"""Seconds in which a worker that is terminated delivers what it has."""


class WorkerEnds:
    """Has `shut_down` called before a worker ends, by itself or because its pool terminates it."""

    def __init__(self, shut_down: Callable[[], None]) -> None:
        self._shut_down = shut_down
        self._asked: set[str] = set()
        self._is_ending = False

    def ask(self) -> None:
        """Ask for it in this process, if it is a worker, and in all that it starts. Does nothing the second time."""
        for package in set(_POOLS) - self._asked:
            register = getattr(sys.modules.get(f"{package}.util"), "register_after_fork", None)
            if register is not None:
                # A worker forgets at its start what was asked for before, by its parent or while it imported, and then
                # calls what is registered here.
                self._asked.add(package)
                register(self, WorkerEnds._register)
        parent = getattr(sys.modules.get("multiprocessing.process"), "parent_process", None)
        # A spawned worker imports its program before it knows that it has a parent.
        if _SPAWNED in sys.orig_argv or (parent is not None and parent() is not None):
            self._register()

    def _register(self) -> None:
        for package in _POOLS:
            finalize = getattr(sys.modules.get(f"{package}.util"), "Finalize", None)
            if finalize is not None:
                finalize(None, self._end, exitpriority=0)
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    def _end(self) -> None:
        self._is_ending = True
        self._shut_down()

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        if self._is_ending:  # What was interrupted delivers what there is, and ends the process.
            return
        # On a thread: the one that was interrupted may hold what a shutdown waits for.
        ending = threading.Thread(target=self._shut_down, daemon=True)
        ending.start()
        ending.join(TERMINATED_WITHIN)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
