"""What the receiver takes for the log: requests, cut into the traces that they hold."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from agenteval_collector.log.kafka.cluster import Cluster
from agenteval_collector.log.kafka.producer import KafkaProducer
from agenteval_collector.log.trace_ids import trace_of
from agenteval_collector.model.telemetry import Signal
from otel_agenteval.proto.v1.frame_pb2 import Frame, ScopeFrame

SIGNAL: Final = "signal"
"""The header that says what a message holds. Without it, it holds spans: as the OpenTelemetry Collector's exporter for
Kafka writes it with `encoding: otlp_proto` and `partition_traces_by_id: true`."""
_NO_TRACE: Final = (b"", bytes(16))


class RequestTopic:
    """Takes requests: every trace's part of one is a message of its own, with the trace's id as its key."""

    def __init__(self, producer: KafkaProducer, cluster: Cluster) -> None:
        self._producer = producer
        self._topic = cluster.spans

    def append(self, signal: Signal, body: bytes) -> Future[int]:
        """Return the offset of the request's last part, once the brokers have all of them. Raises RetryableError where
        it cannot be sent; a part of it may have been then, and is recognised when it comes again."""
        headers = [(SIGNAL, str(int(signal)).encode())]
        parts = by_trace(signal, body)
        return _all_of([self._producer.send(self._topic, key, part, headers) for key, part in parts.items()])


def by_trace(signal: Signal, body: bytes) -> Mapping[bytes, bytes]:
    """Cut an export request into one for each trace, by its id; what belongs to no trace is left out."""
    frames: dict[bytes, Frame] = {}
    for resource in Frame.FromString(body).resources:
        for scope in resource.scopes:
            items: dict[bytes, list[bytes]] = {}
            for raw in scope.items:
                items.setdefault(trace_of(signal, raw), []).append(raw)
            for trace_id, raws in items.items():
                scopes = [ScopeFrame(scope=scope.scope, items=raws)]
                frames.setdefault(trace_id, Frame()).resources.add(resource=resource.resource, scopes=scopes)
    if len(frames) == 1:
        return {trace_id: body for trace_id in frames if trace_id not in _NO_TRACE}
    return {trace_id: each.SerializeToString() for trace_id, each in frames.items() if trace_id not in _NO_TRACE}


def _all_of(parts: list[Future[int]]) -> Future[int]:
    """Return a future that is done when all parts are: with the last one's result, or with the first error."""
    whole: Future[int] = Future()
    left = len(parts)
    if not left:
        whole.set_result(0)

    def done(part: Future[int]) -> None:
        # All of them are settled by the one thread of the producer.
        nonlocal left
        left -= 1
        if whole.done():
            return
        if (error := part.exception()) is not None:
            whole.set_exception(error)
        elif not left:
            whole.set_result(part.result())

    for part in parts:
        part.add_done_callback(done)
    return whole
