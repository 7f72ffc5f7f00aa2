"""Find the session that a complete trace names, without reading all of it."""

from collections.abc import Iterator
from typing import Final

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import resource_of
from otel_agenteval.conventions.identity import SESSION_KEYS, SessionNaming
from otel_agenteval.conventions.identity import session_id as named_session
from otel_agenteval.conventions.spans import attributes
from otel_agenteval.model import Json

_METADATA: Final = "metadata"


class SessionKey:
    """Called with a complete trace for the session that it names, or for its own id where it names none.

    It looks only where the bytes of an attribute's name are. The reader may know better, as it knows which messages
    join a trace to others.
    """

    def __init__(self, naming: SessionNaming) -> None:
        self._naming = naming
        own = [*naming.attributes, *([naming.link_by] if naming.link_by else [])]
        self._names = [name.encode() for name in (*SESSION_KEYS, *own, _METADATA)]

    def __call__(self, trace: AssembledTrace) -> str:
        carriers = [*self._carriers(trace)]
        service = next((origin.service for _, origin in trace.spans if origin.service), None)
        return named_session(carriers) or self._naming.session_id(carriers, service) or trace.trace_id

    def _carriers(self, trace: AssembledTrace) -> Iterator[dict[str, Json]]:
        for raw, _ in trace.spans:
            if any(name in raw for name in self._names):
                yield attributes(Span.FromString(raw).attributes)
        for raw, _ in trace.logs:
            if any(name in raw for name in self._names):
                yield attributes(LogRecord.FromString(raw).attributes)
        for resource in {origin.resource for _, origin in (*trace.spans, *trace.logs)}:
            yield resource_of(resource)
