"""Say once in the log where nothing GenAI came in the first minute, and why that may be. Works off the agent's threads:
spans are looked at by the sender, and waited for by a thread of its own."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from otel_agenteval.loops.light_reader import is_genai
from otel_agenteval.sending.background import OwnThread
from otel_agenteval.sending.buffer import EndedSpan

PATIENCE: Final = 60.0
"""Seconds."""
LONGEST: Final = 5
"""Minutes to wait instead of one while there is work: a server is never without, and a call of a model may be long."""
_MAX_SCOPES: Final = 3
_FURTHER: Final = "`agenteval doctor` looks further"

_logger = logging.getLogger("otel_agenteval")


class FirstMinute:
    """Watches for the first GenAI span; says nothing once it has come, and one sentence where it has not in time.

    `see` is for the thread that sends spans, `start` and `stop` are for the one that owns the processor.
    """

    def __init__(
        self,
        is_working: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        """`is_working`: spans are open, or wait for the collector, so that a GenAI span may still come of them."""
        self._is_working = is_working
        self._monotonic = monotonic
        self._patience = patience
        self._ends = monotonic() + patience
        self._latest = monotonic() + LONGEST * patience
        self._thread = OwnThread("agenteval-first-minute", self._wait)
        self._spans = 0
        self._scopes: dict[str, None] = {}
        self._is_settled = False
        self._judging = threading.Lock()
        self.forked = False
        """Whether children were forked: then they may be the ones that work."""

    def start(self) -> None:
        """Wait on a thread, so that also the absence of all spans is noticed. Raises RuntimeError where the process may
        have no more threads."""
        self._thread.start()

    def stop(self) -> None:
        """Say nothing any more."""
        self._is_settled = True
        self._thread.stop()

    def see(self, batch: Sequence[EndedSpan]) -> None:
        """Look at spans on their way out; at none once it is known how the minute went."""
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
            self._thread.wait(max(0.0, self._ends - self._monotonic()))

    def _settle(self) -> None:
        self._is_settled = True
        self._thread.wake()

    def _judge(self) -> None:
        """Tell how the minute went, if it is over. Two threads come here, and one of them tells."""
        with self._judging:
            now = self._monotonic()
            if self._is_settled or now < self._ends:
                return
            if self._is_working() and now < self._latest:
                self._ends = now + self._patience
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
