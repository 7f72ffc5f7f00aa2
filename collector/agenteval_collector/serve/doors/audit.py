"""Write the audit log: a line of JSON for each action and each refusal, with names and never with keys."""

import json
import logging
import threading
from collections.abc import Mapping
from typing import Final

from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.runtime.clock import Clock

logger = logging.getLogger("agenteval_collector.audit")

WINDOW_SECONDS: Final = 60.0
LINES_PER_WINDOW: Final = 600
"""Lines at most in a window, so that strangers cannot fill the disk."""
_SHOWN: Final = 200
"""Characters of each text at most."""


class Audit:
    """Writes one line for each action of a person, and one in a minute for actions that programs repeat.

    Labelling and administration are written one by one. Sending and refusals are written once in a minute for each
    caller and address. The next minute begins with lines that say how many more there were. From any thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends = clock.monotonic() + WINDOW_SECONDS
        self._lines = 0
        self._seen: dict[tuple[str, ...], int] = {}
        self._left_out = 0

    def allowed(
        self,
        caller: Caller,
        scopes: tuple[Scope, ...],
        action: str,
        peer: str,
        *,
        status: int | None = None,
        user: str | None = None,
    ) -> None:
        """Write that a caller may do something that needs one of these scopes. Reading is not written.

        `status` is that of the HTTP answer: with 4xx, nothing was done. `user` is the person whom a proxy named.
        """
        if Scope.READ in scopes:
            return
        entry = {"caller": caller.name, "tenant": caller.tenant, "action": action, "peer": peer}
        if user is not None:
            entry["user"] = user
        self._tell({"result": "allowed", **entry}, folded=Scope.WRITE in scopes, status=status)

    def refused(self, caller: Caller | None, action: str, peer: str, reason: str) -> None:
        """Write that a call was refused; `caller` is None if it is not known."""
        entry = {"caller": caller.name if caller else None, "action": action, "peer": peer, "reason": reason}
        self._tell({"result": "refused", **entry}, folded=True)

    def _tell(self, entry: dict[str, str | None], *, folded: bool, status: int | None = None) -> None:
        # Without the port: it differs from one connection to the next.
        address = (entry["peer"] or "").rpartition(":")[0]
        key = (entry["result"] or "", entry["caller"] or "", address) if folded else None
        with self._lock:
            self._turn_window()
            if key in self._seen:
                self._seen[key] += 1
                return
            if self._lines >= LINES_PER_WINDOW:
                self._left_out += 1
                return
            self._lines += 1
            if key is not None:
                self._seen[key] = 0
            short_entry = {name: value and value[:_SHOWN] for name, value in entry.items()}
            self._write(short_entry if status is None else {**short_entry, "status": status})

    def _turn_window(self) -> None:
        if self._clock.monotonic() < self._ends:
            return
        for (result, caller, address), more in self._seen.items():
            if more:
                self._write({"result": result, "caller": caller or None, "peer": address, "more": more})
        if self._left_out:
            self._write({"left_out": self._left_out})
        self._seen.clear()
        self._lines = self._left_out = 0
        self._ends = self._clock.monotonic() + WINDOW_SECONDS

    def _write(self, entry: Mapping[str, str | int | None]) -> None:
        logger.info("%s", json.dumps(entry))
