"""Write requests to the log's file, many in one commit, before their senders are answered."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from agenteval_collector.ingest.ports import RequestTaker
from agenteval_collector.ingest.request_file import NewRequest, RequestFile
from agenteval_collector.model.logged_requests import REQUEST_BYTES, Signal
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import Overloaded, RetryableError, Unavailable
from agenteval_collector.runtime.inbox import Inbox

GROUP = 512
"""Requests in one commit at most. A commit holds all requests that wait for it."""
PROBE_EVERY = 1.0
"""Seconds between two attempts at a file that has refused a commit, if no request comes meanwhile."""
PROBE_IDLE = 10.0
"""Seconds without a request after which the file is tried, so that a refusal is known before somebody sends."""


class _Append(NamedTuple):
    request: NewRequest
    offset: Future[int]


class RequestLog(Component):
    """Writes the log's file on a thread of its own, and hands every committed request to the assembly.

    It hands requests on in the order of their offsets, after their senders were answered. While the file refuses, it
    refuses senders, and is unhealthy. It tries the file by itself meanwhile, as senders may stay away from a collector
    that is not ready.
    """

    def __init__(
        self, file: RequestFile, clock: Clock, assembly: RequestTaker, *, tenant: str, max_pending_bytes: int
    ) -> None:
        self._inbox: Inbox[_Append] = Inbox(max_pending_bytes)
        super().__init__("log", self._inbox)
        self._file = file
        self._clock = clock
        self._assembly = assembly
        self._tenant = tenant
        # Bytes that the file refused last. A probe is as large: a smaller one may fit if these do not.
        self._refused_bytes = 0

    @property
    def held(self) -> int:
        """Bytes of memory that waiting requests take. From any thread."""
        return self._inbox.weight

    def append(self, signal: Signal, body: bytes) -> list[Future[int]]:
        """Append a request, in one part. Its future gives the offset once the request is on disk. If the disk refuses,
        the future raises Unavailable, and nothing was kept. Raises Overloaded if too much waits already."""
        entry = _Append(NewRequest(self._tenant, signal, self._clock.now(), body), Future())
        if not self._inbox.put(entry, REQUEST_BYTES + len(body)):
            if self._inbox.closed:
                raise Unavailable("the collector is stopping")
            raise Overloaded("the log has more requests waiting for the disk than fit; send again later")
        return [entry.offset]

    def run(self) -> None:
        while True:
            group = self._inbox.take(GROUP, timeout=PROBE_IDLE if self.health is None else PROBE_EVERY)
            if group:
                self._keep(group)
            elif self._inbox.closed:
                return
            else:
                self._probe()

    def _keep(self, group: Sequence[_Append]) -> None:
        try:
            logged = self._file.commit([entry.request for entry in group])
        except Exception as error:  # noqa: BLE001  # Senders must be told, and the next group is tried.
            self._refused_bytes = sum(len(entry.request.body) for entry in group)
            self.refused(error)
            for entry in group:
                entry.offset.set_exception(Unavailable(str(error)))
            return
        self._refused_bytes = 0
        self.accepted()
        for entry, request in zip(group, logged, strict=True):
            entry.offset.set_result(request.offset)
        # After the answers: nobody waits for the assembly.
        for request in logged:
            self._assembly.take_request(request)

    def _probe(self) -> None:
        try:
            self._file.probe(self._refused_bytes)
        except RetryableError as error:
            self.refused(error)
        else:
            self._refused_bytes = 0
            self.accepted()
