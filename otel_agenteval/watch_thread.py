"""The thread that looks for loops as soon as a span has ended, and at spans that hang."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from otel_agenteval.background import suppressing_instrumentation
from otel_agenteval.watching import Watch

GATHER: Final = 0.002
"""Seconds from being woken to the look: spans that end in quick succession share one."""
TICK: Final = 1.0
"""Seconds between looks for what hangs, while spans are open."""
_IDLE: Final = 30.0
_STOP_TIMEOUT: Final = 1.0


class WatchThread:
    """Runs a `Watch`. `wake` never waits, and is safe inside a garbage collection."""

    def __init__(self, watch: Watch, monotonic: Callable[[], float]) -> None:
        self._watch = watch
        self._monotonic = monotonic
        self._thread: threading.Thread | None = None
        # A SimpleQueue, because a span may end inside a garbage collection that interrupts this very call.
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._token_waits = False
        self._stopping = threading.Event()
        self.is_ticking = False
        """Whether it looks again soon without being woken."""

    def start(self) -> None:
        """Start the thread unless it runs."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="agenteval-watch", daemon=True)
            thread.start()
            self._thread = thread

    def wake(self) -> None:
        """Let the thread look."""
        if not self._token_waits:
            self._token_waits = True
            self._tokens.put(None)

    def stop(self) -> None:
        """Look at what is left, and end the thread."""
        self._stopping.set()
        self.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        # What is looked at may be somebody's object, and must not make spans.
        with suppressing_instrumentation():
            ticked_at = self._monotonic()
            while not self._stopping.is_set():
                try:
                    self._tokens.get(timeout=TICK if self.is_ticking else _IDLE)
                    self.is_ticking = True
                    self._stopping.wait(GATHER)
                    self._token_waits = False
                    self._watch.look()
                except Empty:
                    self.is_ticking = self._watch.has_open
                if self._monotonic() - ticked_at >= TICK:
                    self._watch.tick()
                    ticked_at = self._monotonic()
            self._watch.look()
