"""Log which spans and log records were rejected, as only their sender hears of it otherwise."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from agenteval_collector.ingest.validity import Checked
from agenteval_collector.model.logged_requests import Signal
from otel_agenteval.internal.text import cut
from otel_agenteval.sending.throttle import ThrottledLog

logger = logging.getLogger(__name__)

_SHOWN: Final = 80
"""Characters of a service's name in a line."""


class RejectionLog:
    """Logs rejections, one line a minute for each reason. Thread-safe. `monotonic` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._log = ThrottledLog(logger, monotonic)

    def note(self, signal: Signal, checked: Checked) -> None:
        """Note what was rejected of a request."""
        what = "spans" if signal is Signal.TRACES else "log records"
        # What stands behind a colon may quote the span, and there are few reasons without it.
        reason = checked.reason.partition(":")[0]
        service = f"is {cut(checked.service, _SHOWN)!r}" if checked.service else "is not known"
        with self._lock:
            self._log.lose(f"%d {what} rejected, {reason}", checked.rejected, f"the service of the first {service}")
            self._log.log_losses()
