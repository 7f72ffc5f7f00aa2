"""The times at which outcomes and findings of a collector arrive on the watch stream."""

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from benchmarks.harness import TIMEOUT
from otel_agenteval.proto.v1.evaluation_pb2 import EndSessionRequest, WatchRequest, WatchResponse
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub


class Arrivals:
    """The arrival times of events, by trace id. `trace_of` returns the id, or None for an event that does not count."""

    def __init__(
        self, channel: grpc.Channel, request: WatchRequest, trace_of: Callable[[WatchResponse], str | None]
    ) -> None:
        self._stub = EvaluationServiceStub(channel)
        self._request = request
        self._stream = self._opened()
        self._trace_of = trace_of
        self._arrived: dict[str, int] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def wait(self, trace_id: str) -> int:
        """Return the time at which the event of this trace arrived, by `time.perf_counter_ns`.

        Raises TimeoutError if it does not arrive within `TIMEOUT` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: trace_id in self._arrived, TIMEOUT):
                raise TimeoutError(f"nothing came of trace {trace_id} within {TIMEOUT:.0f} s")
            return self._arrived.pop(trace_id)

    def round_trip(self) -> float:
        """Return the milliseconds that a call over the same connection takes."""
        started = time.perf_counter_ns()
        self._stub.EndSession(EndSessionRequest(session_id="nobody"), timeout=TIMEOUT)
        return (time.perf_counter_ns() - started) / 1e6

    def close(self) -> None:
        self._stream.cancel()

    def _opened(self) -> Any:
        stream = self._stub.Watch(self._request)
        stream.initial_metadata()
        return stream

    def _watch(self) -> None:
        while True:
            try:
                for response in self._stream:
                    self._take(response)
                return
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.CANCELLED:
                    return
                # A collector ends every connection after an hour. The stream then fails with UNAVAILABLE.
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            self._stream = self._opened()

    def _take(self, response: WatchResponse) -> None:
        arrived = time.perf_counter_ns()
        trace_id = self._trace_of(response)
        if trace_id is not None:
            with self._changed:
                self._arrived[trace_id] = arrived
                self._changed.notify_all()
