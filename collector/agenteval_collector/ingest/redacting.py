"""Redact requests before anything of them is kept."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.model.running_traces import StartsReport
from otel_agenteval import semconv
from otel_agenteval.conventions.identity import SESSION_KEYS, USER_KEYS
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Json
from otel_agenteval.redaction.encoded import merged
from otel_agenteval.redaction.redactor import RedactionBudget

TRACES: Final = 10_000
"""Traces whose budgets are remembered."""
IDS: Final = frozenset(
    (*SESSION_KEYS, *USER_KEYS, semconv.AGENTEVAL_TASK_ID, semconv.AGENTEVAL_RUN_ID, semconv.AGENTEVAL_PROCESS_ID)
)
"""Attributes that stay as they are: run reports, verdicts and deletions find sessions, users and runs by them."""


class RequestRedaction:
    """Redacts all texts of a request with `redact`, within one budget for each trace. Thread-safe.

    `redact` must give equal values equal placeholders in all requests, and different values different ones: loops and
    conversations are found by comparison. `ids` are further attributes that stay as they are.
    """

    def __init__(self, redact: Callable[[Json, RedactionBudget], Json], ids: Collection[str] = ()) -> None:
        self._redact = redact
        self._ids = IDS.union(ids)
        self._lock = threading.Lock()  # of _budgets
        self._budgets: LruMap[bytes, RedactionBudget] = LruMap(TRACES)

    def redact(self, signal: Signal, body: bytes) -> bytes:
        """Return a checked request, redacted. Fields that OTLP does not know, or that no reader uses, are left out."""
        if signal is Signal.TRACES:
            spans = ExportTraceServiceRequest.FromString(body)
            return self._redacted(spans, spans.resource_spans)
        records = ExportLogsServiceRequest.FromString(body)
        return self._redacted(records, records.resource_logs)

    def text(self, text: str) -> str:
        """Return a text that came beside telemetry, redacted."""
        return str(self._redact(text, RedactionBudget()))

    def name(self, text: str | None) -> str | None:
        """Return a text that may be missing, redacted."""
        return self.text(text) if text else text

    def starts(self, report: StartsReport) -> StartsReport:
        """Return a report of open spans and of what their process found, redacted like the spans themselves."""
        started = [
            replace(start, name=self.text(start.name), agent=start.agent and self.text(start.agent))
            for start in report.starts
        ]
        return replace(report, starts=started, findings=[self._finding(finding) for finding in report.findings])

    def _finding(self, finding: Finding) -> Finding:
        ids = {name: value for name, value in finding.metadata.items() if name.endswith(("_id", "_ids"))}
        metadata = {name: value for name, value in finding.metadata.items() if name not in ids}
        return replace(
            finding,
            reason=self.text(finding.reason),
            tool=finding.tool and self.text(finding.tool),
            agent=finding.agent and self.text(finding.agent),
            metadata={**cast("dict[str, Json]", self._redact(metadata, RedactionBudget())), **ids},
        )

    def _redacted(self, request: Message, resources: Iterable[ResourceSpans | ResourceLogs]) -> bytes:
        request.DiscardUnknownFields()
        for resource in resources:
            self._origin(resource)
            for scope in resource.scope_spans if isinstance(resource, ResourceSpans) else resource.scope_logs:
                self._scope(scope)
                for item in scope.spans if isinstance(scope, ScopeSpans) else scope.log_records:
                    self._item(item, self._budget(item.trace_id))
        return request.SerializeToString()

    def _item(self, item: Span | LogRecord, budget: RedactionBudget) -> None:
        self._attributes(item.attributes, budget)
        if isinstance(item, Span):
            self._span(item, budget)
        else:
            self._record(item, budget)

    def _origin(self, origin: ResourceSpans | ResourceLogs) -> None:
        self._attributes(origin.resource.attributes, RedactionBudget())
        origin.resource.ClearField("entity_refs")
        self._texts(origin, ("schema_url",), RedactionBudget())

    def _scope(self, items: ScopeSpans | ScopeLogs) -> None:
        self._attributes(items.scope.attributes, RedactionBudget())
        self._texts(items.scope, ("name", "version"), RedactionBudget())
        self._texts(items, ("schema_url",), RedactionBudget())

    def _span(self, span: Span, budget: RedactionBudget) -> None:
        for event in span.events:
            self._attributes(event.attributes, budget)
            self._texts(event, ("name",), budget)
        for link in span.links:
            self._attributes(link.attributes, budget)
            self._texts(link, ("trace_state",), budget)
        self._texts(span.status, ("message",), budget)
        self._texts(span, ("name", "trace_state"), budget)

    def _record(self, record: LogRecord, budget: RedactionBudget) -> None:
        body = _json(record.body)
        redacted = self._redact(body, budget)
        if redacted != body:
            record.body.CopyFrom(_value(redacted))
        self._texts(record, ("event_name", "severity_text"), budget)

    def _texts(self, message: Message, fields: Iterable[str], budget: RedactionBudget) -> None:
        for field in fields:
            if text := getattr(message, field):
                setattr(message, field, self._redact(text, budget))

    def _attributes(self, attributes: Sequence[KeyValue], budget: RedactionBudget) -> None:
        group = [attribute for attribute in attributes if attribute.key not in self._ids]
        values = {attribute.key: _json(attribute.value) for attribute in group}
        redacted = cast("dict[str, Json]", self._redact(values, budget)) if len(values) == len(group) else {}
        if len(redacted) < len(group):  # A key stands twice, or two keys have the same placeholder.
            for attribute in group:
                self._attributes([attribute], budget)
            return
        for attribute, (key, value) in zip(group, redacted.items(), strict=True):
            if value != values[attribute.key]:
                attribute.value.CopyFrom(_value(value))
            attribute.key = key

    def _budget(self, trace_id: bytes) -> RedactionBudget:
        with self._lock:
            budget = self._budgets.get(trace_id)
            if budget is None:
                budget = RedactionBudget()
                self._budgets.put(trace_id, budget)
            return budget


def _json(value: AnyValue) -> Json:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_json(item) for item in value.array_value.values]
        case "kvlist_value":
            return merged((pair.key, _json(pair.value)) for pair in value.kvlist_value.values)
        case "bytes_value":
            return value.bytes_value.decode("utf-8", "replace")
        case kind:
            return cast("Json", getattr(value, kind))


def _value(value: Json) -> AnyValue:
    filled = AnyValue()
    match value:
        case None:
            pass
        case bool():
            filled.bool_value = value
        case int():
            filled.int_value = value
        case float():
            filled.double_value = value
        case str():
            filled.string_value = value
        case list():
            filled.array_value.values.extend(map(_value, value))
            filled.array_value.SetInParent()
        case Mapping():
            filled.kvlist_value.values.extend(KeyValue(key=key, value=_value(item)) for key, item in value.items())
            filled.kvlist_value.SetInParent()
    return filled
