"""Results of other evaluators that come with the telemetry, kept beside the scores."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.otlp import START, log, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

EVENT = "gen_ai.evaluation.result"
SCORED = {"gen_ai__evaluation__name": "relevance", "gen_ai__evaluation__score__value": 0.25}


@pytest.fixture
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("collector")) as running:
        yield running


def result(trace: int, **attributes: Any) -> LogRecord:
    """A result about span 1 of a trace; about no span for trace 0."""
    record = log(trace, 1, **attributes)
    record.event_name, record.time_unix_nano = EVENT, START
    if not trace:
        record.trace_id, record.span_id = b"", b""
    return record


def sent_by(scope: str, *records: LogRecord, service: str = "") -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    if service:
        group.resource.attributes.add(key="service.name").value.string_value = service
    scoped = group.scope_logs.add()
    scoped.scope.name = scope
    scoped.log_records.extend(records)
    return request


def said(document: Any) -> list[tuple[Any, ...]]:
    return [tuple(each[key] for key in ("name", "value", "source", "author", "note")) for each in document["labels"]]


def test_results_in_log_records_stand_on_the_trace_and_leave_it_as_it_was(collector: RunningCollector) -> None:
    named = trace_id(1).hex()
    # Before its trace, and after it; neither makes a trace or a revision of one.
    collector.send_logs(sent_by("ragas", result(1, **SCORED, gen_ai__evaluation__explanation="off topic")))
    assert collector.get(f"/api/v1/traces/{named}") is None
    collector.send(traces(turn(1, "hi", "hello", session="s")))
    collector.scored(named)
    old = log(1, 1, event__name=EVENT, gen_ai__evaluation__name="polite", gen_ai__evaluation__score__label="Pass")
    collector.send_logs(sent_by("", old, service="grader"))
    collector.send_logs(sent_by("ragas", result(0, **SCORED, gen_ai__conversation__id="s")))
    # Ours come back where a pipeline sends everything everywhere.
    collector.send_logs(sent_by("agenteval_collector", result(1, **SCORED)))
    collector.send(traces(turn(2, "bye", "bye", session="s")))
    collector.scored(trace_id(2).hex())
    document = collector.get(f"/api/v1/traces/{named}")
    assert said(document) == [
        ("polite", 1.0, "evaluator", "grader", None),
        ("relevance", 0.25, "evaluator", "ragas", "off topic"),
    ]
    assert document["revision"] == 1
    assert said(collector.get("/api/v1/sessions/s")) == [("relevance", 0.25, "evaluator", "ragas", None)]
    page = collector.get(f"/traces/{named}")
    assert "Evaluator ragas says that relevance is 0.25: off topic" in page


def test_results_in_span_events_stand_on_the_trace_and_are_compared_with_scores_of_their_name(
    collector: RunningCollector,
) -> None:
    judged = turn(1, "hi there", "hello there", session="s")
    record = result(1, gen_ai__evaluation__name="coherence", gen_ai__evaluation__score__value=1)
    judged.events.append(Span.Event(name=EVENT, attributes=record.attributes))
    request = traces(judged)
    request.resource_spans[0].scope_spans[0].scope.name = "deepeval"
    collector.send(request)
    document = collector.scored(trace_id(1).hex())
    assert said(document) == [("coherence", 1.0, "evaluator", "deepeval", None)]
    [found] = collector.get("/api/v1/agreement")["items"]
    assert (found["name"], found["source"], found["labels"]) == ("coherence", "evaluator", 1)


def test_a_word_that_says_the_contrary_of_the_score_is_believed(collector: RunningCollector) -> None:
    scored = ((1, 1.0, "fail", 0.0), (2, 0.0, "pass", 1.0), (3, 0.25, "fail", 0.25), (4, 0.75, "odd", 0.75))
    for number, score, word, kept in scored:
        values = {"gen_ai__evaluation__score__value": score, "gen_ai__evaluation__score__label": word}
        collector.send_logs(sent_by("ragas", result(number, **SCORED | values)))
        collector.send(traces(turn(number, "hi", "hello", session="s")))
        assert [each[1] for each in said(collector.scored(trace_id(number).hex()))] == [kept]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        pytest.param(result(1, **SCORED, error__type="timeout"), "failed", id="it failed"),
        pytest.param(result(1, gen_ai__evaluation__score__value=1.0), "no_name", id="no name"),
        pytest.param(result(0, **SCORED), "no_subject", id="about nothing"),
        pytest.param(result(1, gen_ai__evaluation__name="stars"), "no_score", id="no score"),
        pytest.param(result(1, **{**SCORED, "gen_ai__evaluation__score__value": 4.5}), "no_score", id="out of range"),
        pytest.param(
            result(1, gen_ai__evaluation__name="stars", gen_ai__evaluation__score__label="relevant"),
            "no_score",
            id="a word that is no verdict",
        ),
    ],
)
def test_a_result_that_says_no_value_is_left_out_and_counted(
    collector: RunningCollector, record: LogRecord, reason: str
) -> None:
    request = sent_by("ragas", record, result(2, **SCORED))
    collector.send_logs(request)
    assert f'agenteval_collector_results_left_out_total{{agenteval_reason="{reason}"}} 1.0' in collector.get("/metrics")
    collector.send(traces(turn(1, "hi", "hello", session="s"), turn(2, "hi", "hello", session="s")))
    assert said(collector.scored(trace_id(1).hex())) == []
    assert said(collector.scored(trace_id(2).hex())) == [("relevance", 0.25, "evaluator", "ragas", None)]
    assert collector.get("/api/v1/sessions/s")["labels"] == []
