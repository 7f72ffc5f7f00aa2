"""A warning, once, if no GenAI span came in the first minute, with the likely reason.

It never runs on the agent's threads: the export thread looks at spans, and a thread of its own waits for the minute.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from otel_agenteval.loops.light_reader import is_genai
from otel_agenteval.sending.background import OwnThread
from otel_agenteval.sending.buffer import EndedSpan

PATIENCE: Final = 60.0
"""Seconds to wait for the first GenAI span."""
LONGEST: Final = 5
"""Times `PATIENCE` to wait while spans are open or on their way. A model call may be long; and a server always has
some."""
_MAX_SCOPES: Final = 3
_FURTHER: Final = "`agenteval doctor` looks further"

_logger = logging.getLogger("otel_agenteval")


@dataclass(eq=False)
class FirstMinute:
    """Waits for the first GenAI span, and logs one warning if it does not come in time.

    The export thread calls `see`, the owner of the processor calls `start` and `stop`. `is_working` returns whether
    spans are open or wait for the collector, so that a GenAI span may still come.
    """

    is_working: Callable[[], bool]
    monotonic: Callable[[], float] = time.monotonic
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        self._ends = self.monotonic() + self.patience
        self._latest = self.monotonic() + LONGEST * self.patience
        self._thread = OwnThread("agenteval-first-minute", self._wait)
        self._spans = 0
        self._scopes: dict[str, None] = {}
        self._is_settled = False
        self._judging = threading.Lock()
        self.forked = False
        """True once the process has forked children: they may do the work, and have spans."""

    def start(self) -> None:
        """Start the thread that waits: without spans, `see` is never called. Raises RuntimeError if the process may
        have no more threads."""
        self._thread.start()

    def stop(self) -> None:
        """Stop waiting, without a warning."""
        self._is_settled = True
        self._thread.stop()

    def see(self, batch: Sequence[EndedSpan]) -> None:
        """Look for a GenAI span among spans on their way out. Does nothing once it is settled."""
        if self._is_settled:
            return
        if any(is_genai(ended.attributes) for ended in batch):
            self._settle()
            return
        self._spans += len(batch)
        for ended in batch:
            if len(self._scopes) < _MAX_SCOPES and (scope := ended.span.instrumentation_scope) is not None:
                self._scopes[scope.name] = None
        self._judge()

    def _wait(self) -> None:
        while not self._is_settled:
            self._judge()
            self._thread.wait(max(0.0, self._ends - self.monotonic()))

    def _settle(self) -> None:
        self._is_settled = True
        self._thread.wake()

    def _judge(self) -> None:
        """Log the warning if the time is over. Two threads may call this, and one of them logs."""
        with self._judging:
            now = self.monotonic()
            if self._is_settled or now < self._ends:
                return
            if self.is_working() and now < self._latest:
                self._ends = now + self.patience
                return
            self._is_settled = True
        if self._spans:
            scopes = ", ".join(self._scopes) or "no named scope"
            _logger.warning(
                "none of the first %d spans is of GenAI (they are from %s): install an instrumentation for the agent's "
                "framework, and set it up before the agent is made; %s",
                self._spans,
                scopes,
                _FURTHER,
            )
        elif not self.forked:
            _logger.warning(
                "no span ended since agenteval was attached; if the agent has worked, %s; %s",
                _why_none(),
                _FURTHER,
            )


def _why_none() -> str:
    """Return the likeliest reason why there is no span."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "it is because OTEL_SDK_DISABLED is set"
    sampler = os.environ.get("OTEL_TRACES_SAMPLER", "")
    if "off" in sampler:
        return f"it is because OTEL_TRACES_SAMPLER is {sampler}"
    return (
        "no instrumentation is set up in this process, or it records on another tracer provider: "
        "add otel_agenteval.AgentEvalSpanProcessor() to that one"
    )
