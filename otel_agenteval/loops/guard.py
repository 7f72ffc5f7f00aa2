"""The opt-in guard: an agent that loops is stopped by an exception at its next tool or model call."""

import threading
from contextvars import Token
from typing import Final

from opentelemetry import context as context_api
from opentelemetry.context import Context

from otel_agenteval.verdict import Verdict

_GUARDED: Final = context_api.create_key("agenteval-guarded")


class AgentLoopDetected(BaseException):
    """An alarm says that the agent is to stop. No `Exception`: frameworks take those of a tool for its answer and go
    on, and instrumentations swallow them. Catch it by its name."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(f"{verdict.kind}: {verdict.reason}")
        self.verdict = verdict

    def __reduce__(self) -> tuple[type["AgentLoopDetected"], tuple[Verdict]]:
        return type(self), (self.verdict,)


class _ProcessWide:
    """The number of plain calls of `stop_on_loop` that hold, and whether it was ever called."""

    def __init__(self) -> None:
        self.calls = 0
        self.used = False
        self.lock = threading.Lock()

    def add(self, calls: int) -> None:
        with self.lock:
            self.calls += calls
            self.used = True


process_wide = _ProcessWide()


class Guard:
    """The guard that `stop_on_loop` returns; as a context manager it guards only what runs inside."""

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
    """Stop an agent that has an alarming verdict from now on: its next tool or model call raises `AgentLoopDetected`.

    Called plainly it holds for the whole process; `with otel_agenteval.stop_on_loop():` for what runs inside, as far as
    the OpenTelemetry context goes. The span of the call is neither sent nor counted. The trace is stopped for good; a
    later one of the session only where the alarm came when its own trace was over. Where an instrumentation says what a
    span is only at its end, use `raise_if_looping` in the tools.
    """
    return Guard()


def is_guarded(context: Context | None) -> bool:
    """Return whether a guard holds for a span that starts in `context`; None: the current one."""
    return process_wide.calls > 0 or context_api.get_value(_GUARDED, context) is True
