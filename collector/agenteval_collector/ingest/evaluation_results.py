"""Take the results of other evaluators (events `gen_ai.evaluation.result`) out of the telemetry, as labels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.model.logged_requests import Signal
from otel_agenteval import semconv
from otel_agenteval.internal.text import storable

EVENT: Final = semconv.GEN_AI_EVALUATION_RESULT_EVENT
EVENT_NAME: Final = "event.name"
"""The attribute with the name of an event, before log records had a field for it."""
WORDS: Final = {"pass": 1.0, "passed": 1.0, "fail": 0.0, "failed": 0.0}
"""The values of the words that stand for a score if there is no number."""
MAX_ID: Final = 1024
MAX_NOTE: Final = 10_000

_Values: TypeAlias = Mapping[str, str | float]


@dataclass(slots=True)
class Results:
    """The results in a request as `labels`, and the numbers of those `left_out`, by reason.

    `body` is the request without the log records that held results; None if nothing else is left. Such records are
    no content of their traces, and come long after them.
    """

    body: bytes | None
    labels: list[Label] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def take_result(self, values: _Values, author: str, trace_id: bytes) -> None:
        """Take a result, or count why it is left out: `failed`, `no_name`, `no_subject` or `no_score`."""
        name = values.get(semconv.GEN_AI_EVALUATION_NAME)
        session_id = values.get(semconv.GEN_AI_CONVERSATION_ID)
        value = _value(values)
        if semconv.ERROR_TYPE in values:
            self.left_out["failed"] += 1
        elif not _is_id(name):
            self.left_out["no_name"] += 1
        elif not any(trace_id) and not _is_id(session_id):
            self.left_out["no_subject"] += 1
        elif value is None:
            self.left_out["no_score"] += 1
        else:
            note = values.get(semconv.GEN_AI_EVALUATION_EXPLANATION)
            self.labels.append(
                Label(
                    trace_id=trace_id.hex() if any(trace_id) else None,
                    session_id=None if any(trace_id) else str(session_id),
                    name=str(name),
                    value=value,
                    author=storable(author)[:MAX_ID] or None,
                    note=storable(note)[:MAX_NOTE] if isinstance(note, str) else None,
                    source=LabelSource.EVALUATOR,
                )
            )


def read_results(signal: Signal, body: bytes) -> Results:
    """Return the results in a request that was checked."""
    results = Results(body)
    # Most requests hold none, and need not be parsed for that.
    if EVENT.encode() not in body:
        return results
    if signal is Signal.TRACES:
        _read_spans(results, ExportTraceServiceRequest.FromString(body))
    else:
        _read_records(results, ExportLogsServiceRequest.FromString(body))
    return results


def _read_spans(results: Results, request: ExportTraceServiceRequest) -> None:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            author = scope.scope.name or _service(resource.resource.attributes)
            for span in scope.spans:
                for event in span.events:
                    if event.name == EVENT:
                        results.take_result(_values(event.attributes), author, span.trace_id)


def _read_records(results: Results, request: ExportLogsServiceRequest) -> None:
    log = 0
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            author = scope.scope.name or _service(resource.resource.attributes)
            others = list(_others(results, scope.log_records, author))
            del scope.log_records[:]
            scope.log_records.extend(others)
            log += len(others)
    results.body = request.SerializeToString() if log else None


def _others(results: Results, records: Iterable[LogRecord], author: str) -> Iterator[LogRecord]:
    """Take the results, and yield the other records."""
    for record in records:
        values = _values(record.attributes)
        if EVENT in (record.event_name, values.get(EVENT_NAME)):
            results.take_result(values, author, record.trace_id)
        else:
            yield record


def _values(attributes: Iterable[KeyValue]) -> _Values:
    """Return the texts and numbers among the attributes."""
    values: dict[str, str | float] = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind in ("string_value", "double_value", "int_value"):
            values[attribute.key] = getattr(attribute.value, kind)
    return values


def _value(values: _Values) -> float | None:
    """Return the score, or the value of its word; None if neither is in [0, 1].

    Events do not say the scale of a score: 1 may be the worst of 1 to 5, and 0 the best if less is better. So a word
    that says the contrary of the score is believed.
    """
    score = values.get(semconv.GEN_AI_EVALUATION_SCORE_VALUE)
    word = WORDS.get(str(values.get(semconv.GEN_AI_EVALUATION_SCORE_LABEL)).strip().lower())
    if not isinstance(score, int | float) or not 0.0 <= score <= 1.0:
        return word
    return float(score) if word is None or abs(word - score) <= 0.5 else word


def _service(attributes: Iterable[KeyValue]) -> str:
    return str(_values(attributes).get(semconv.SERVICE_NAME, ""))


def _is_id(value: str | float | None) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID and storable(value) == value
