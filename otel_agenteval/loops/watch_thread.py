"""The thread that looks for loops as soon as a span has ended, and at spans that hang."""

import threading
from collections.abc import Callable
from typing import Final

from otel_agenteval.loops.watch import Watch
from otel_agenteval.sending.background import OwnThread, suppressing_instrumentation

GATHER: Final = 0.002
"""Seconds from being woken to the look: spans that end in quick succession share one."""
TICK: Final = 1.0
"""Seconds between looks for what hangs, while spans are open."""
_IDLE: Final = 30.0
_STOP_TIMEOUT: Final = 1.0


class WatchThread:
    """Runs a `Watch`. `take_in` gives it what has arrived. `wake` is the one of `OwnThread`."""

    def __init__(self, watch: Watch, take_in: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._watch = watch
        self._take_in = take_in
        self._monotonic = monotonic
        self._thread = OwnThread("agenteval-watch", self._run)
        self.start, self.wake = self._thread.start, self._thread.wake
        self._stopping = threading.Event()
        self.is_ticking = False
        """True while it looks again soon without being woken."""

    def stop(self) -> None:
        """Look at what is left, and end the thread."""
        self._stopping.set()
        self.wake()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        # What is looked at may be somebody's object, and must not make spans.
        with suppressing_instrumentation():
            ticked_at = self._monotonic()
            while not self._stopping.is_set():
                if self._thread.wait(TICK if self.is_ticking else _IDLE, gather=GATHER):
                    self.is_ticking = True
                    self._look()
                else:
                    # First: who starts a span from here on wakes this thread, and what started before is looked at.
                    self.is_ticking = False
                    self._look()
                    self.is_ticking = self._watch.has_open
                if self._monotonic() - ticked_at >= TICK:
                    self._take_in()
                    self._watch.tick()
                    ticked_at = self._monotonic()
            self._look()

    def _look(self) -> None:
        self._take_in()
        self._watch.look()
