"""The opt-in guard: it stops an agent that loops, by an exception at its next tool or model call."""

import os
import threading
from contextvars import Token
from typing import Final

from opentelemetry import context as context_api
from opentelemetry.context import Context

from otel_agenteval.verdict import Verdict

_GUARDED: Final = context_api.create_key("agenteval-guarded")


class AgentLoopDetected(BaseException):
    """Raised in an agent that an alarm is to stop. Catch it by its name.

    It is no `Exception`, because frameworks give those to the model as a tool's answer and go on, and instrumentations
    swallow them.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(f"{verdict.kind}: {verdict.reason}")
        self.verdict = verdict

    def __reduce__(self) -> tuple[type["AgentLoopDetected"], tuple[Verdict]]:
        return type(self), (self.verdict,)


class _ProcessWide:
    """Counts the plain calls of `stop_on_loop` that are not taken back.

    `used` says whether `stop_on_loop` was ever called, also as a context manager.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.used = False
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock, in a forked child too: another thread may have held the old one at the fork."""
        self.lock = threading.Lock()

    def add(self, calls: int) -> None:
        with self.lock:
            self.calls += calls
            self.used = True


process_wide = _ProcessWide()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_wide.renew_lock)


class Guard:
    """The guard that `stop_on_loop` returns. As a context manager, it guards only what runs inside."""

    def __init__(self) -> None:
        self._token: Token[Context] | None = None
        self._is_process_wide = True
        process_wide.add(1)

    def __enter__(self) -> "Guard":
        self.disarm()
        self._token = context_api.attach(context_api.set_value(_GUARDED, True))
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            context_api.detach(self._token)
            self._token = None

    def disarm(self) -> None:
        """Take back a plain call of `stop_on_loop`."""
        if self._is_process_wide:
            self._is_process_wide = False
            process_wide.add(-1)


def stop_on_loop() -> Guard:
    """Stop agents that loop from now on: after an alarm, the next tool or model call raises `AgentLoopDetected`.

    A plain call guards the whole process. `with otel_agenteval.stop_on_loop():` guards what runs inside, as far as the
    OpenTelemetry context reaches. The span of the refused call is neither sent nor counted.

    The alarm's trace is stopped for good. A later trace of the session is stopped only if the alarm came after its own
    trace was over. Some instrumentations say only at the end of a span that it is a call; with those, call
    `raise_if_looping` in the tools.
    """
    return Guard()


def is_guarded(context: Context | None) -> bool:
    """Return whether a guard holds for a span that starts in `context` (None: the current one)."""
    return process_wide.calls > 0 or context_api.get_value(_GUARDED, context) is True
