"""The session that a complete trace names, found without reading all of the trace."""

from collections.abc import Iterable, Iterator
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import resource_of
from otel_agenteval.conventions.identity import SESSION_KEYS, SessionNaming
from otel_agenteval.conventions.spans import attributes
from otel_agenteval.model import Json

_METADATA: Final = "metadata"


class SessionKey:
    """Returns, when called, the session that a complete trace names, or the trace's own id if it names none.

    It decodes only the attributes that may name a session. The trace may turn out to belong to another session once it
    is read, because its messages may join it to other traces.
    """

    def __init__(self, naming: SessionNaming) -> None:
        self._naming = naming
        own = [*naming.attributes, *([naming.link_by] if naming.link_by else [])]
        self._names = frozenset((*SESSION_KEYS, *own, _METADATA))

    def __call__(self, trace: AssembledTrace) -> str:
        carriers = [*self._carriers(trace)]
        service = next((origin.service for _, origin in trace.spans if origin.service), None)
        return self._naming.of(carriers, service) or trace.trace_id

    def _carriers(self, trace: AssembledTrace) -> Iterator[dict[str, Json]]:
        for raw, _ in trace.spans:
            yield self._named(Span.FromString(raw).attributes)
        for raw, _ in trace.logs:
            yield self._named(LogRecord.FromString(raw).attributes)
        for resource in {origin.resource for _, origin in (*trace.spans, *trace.logs)}:
            yield resource_of(resource)

    def _named(self, pairs: Iterable[KeyValue]) -> dict[str, Json]:
        # To parse a span costs less than to search its bytes for a dozen names.
        return attributes(pair for pair in pairs if pair.key in self._names)
