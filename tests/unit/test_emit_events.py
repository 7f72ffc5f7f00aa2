from typing import Any

import pytest
from agenteval_collector.emit.events import EvaluationEvents, finding_key
from agenteval_collector.model.news import CommittedEvaluation, News
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from otel_agenteval.finding import Mode, Severity
from otel_agenteval.outcome import Failure, Score, Status, Subject, Unscored
from tests.support.evaluations import SPAN_ID, TRACE_ID, committed
from tests.support.findings import SPAN_ID as FOUND_ON
from tests.support.findings import TRACE_ID as FOUND_IN
from tests.support.findings import finding, loop_found


class Emitted:
    """The events, and what came out of the SDK."""

    def __init__(self) -> None:
        self._exporter = InMemoryLogRecordExporter()
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self._exporter))
        self.events = EvaluationEvents(provider.get_logger("test"))

    def tell(self, *evaluations: CommittedEvaluation) -> None:
        self.events.take_news(News(evaluations=evaluations))

    @property
    def records(self) -> list[ReadableLogRecord]:
        return list(self._exporter.get_finished_logs())


@pytest.fixture
def emitted() -> Emitted:
    return Emitted()


def test_a_score_is_an_event_on_the_evaluated_span(emitted: Emitted) -> None:
    emitted.tell(committed(model="static"))
    [record] = [readable.log_record for readable in emitted.records]
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.severity_number is SeverityNumber.INFO
    assert (record.trace_id, record.span_id) == (int(TRACE_ID, 16), int(SPAN_ID, 16))
    assert record.timestamp == record.observed_timestamp == 1_700_000_000_000_000_000
    assert dict(record.attributes or {}) == {
        "gen_ai.evaluation.name": "coherence",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "answers the question",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.agent.name": "planner",
        "agenteval.subject": "trace",
        "agenteval.status": "scored",
        "agenteval.evaluation.method": "embedding",
        "agenteval.evaluation.coverage": 1.0,
        "agenteval.evaluation.threshold": 0.5,
        "agenteval.evaluation.revision": 1,
        "agenteval.evaluator.version": "1",
        "agenteval.evaluator.model": "static",
        "agenteval.service.name": "shop",
        "agenteval.service.version": "1.2.0",
    }


def test_a_failure_has_an_error_type_and_neither_value_nor_label(emitted: Emitted) -> None:
    emitted.events.take_news(
        News(evaluations=[committed(outcome=Failure(error_type="timeout", reason="no answer in 30 s"))])
    )
    attributes = emitted.records[0].log_record.attributes or {}
    assert attributes["error.type"] == "timeout"
    assert attributes["gen_ai.evaluation.explanation"] == "no answer in 30 s"
    assert not {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} & set(attributes)


def test_what_is_unscored_says_why_and_is_no_error(emitted: Emitted) -> None:
    emitted.events.take_news(
        News(evaluations=[committed(outcome=Unscored(status=Status.NO_CONTENT, reason="no text was recorded"))])
    )
    attributes = emitted.records[0].log_record.attributes or {}
    assert attributes["agenteval.status"] == "no_content"
    assert not {"error.type", "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} & set(attributes)


def test_that_there_is_no_judge_is_no_event(emitted: Emitted) -> None:
    none = committed(outcome=Unscored(status=Status.NO_JUDGE, reason="there is none"))
    emitted.tell(none, committed())
    assert [(each.log_record.attributes or {})["agenteval.status"] for each in emitted.records] == ["scored"]


def test_a_score_without_a_threshold_has_no_label(emitted: Emitted) -> None:
    emitted.tell(committed(threshold=None))
    attributes = emitted.records[0].log_record.attributes or {}
    assert attributes["gen_ai.evaluation.score.value"] == 0.75
    assert not {"gen_ai.evaluation.score.label", "agenteval.evaluation.threshold"} & set(attributes)


def test_every_revision_is_emitted(emitted: Emitted) -> None:
    emitted.tell(committed(), committed(revision=2, first=False))
    emitted.events.take_news(
        News(evaluations=[committed(subject=Subject.SESSION, revision=3, first=False, final=False)])
    )
    revisions = [
        (readable.log_record.attributes or {})["agenteval.evaluation.revision"] for readable in emitted.records
    ]
    assert revisions == [1, 2, 3]


def test_without_a_span_the_event_is_still_on_the_trace(emitted: Emitted) -> None:
    emitted.tell(committed(span_id=None))
    record = emitted.records[0].log_record
    assert (record.trace_id, record.span_id) == (int(TRACE_ID, 16), 0)


def test_the_goal_of_a_session_is_on_no_trace(emitted: Emitted) -> None:
    about: dict[str, Any] = {"name": "goal_success", "subject": Subject.SESSION, "subject_id": "s-1"}
    emitted.tell(committed(**about, trace_id=None, span_id=None))
    [told] = emitted.records
    attributes = dict(told.log_record.attributes or {})
    assert (attributes["gen_ai.conversation.id"], attributes["agenteval.subject"]) == ("s-1", "session")
    assert not any("trace" in name for name in attributes)
    [[[sent]]] = [
        [scope.log_records for scope in resource.scope_logs] for resource in encode_logs([told]).resource_logs
    ]
    assert (sent.trace_id.strip(b"\0"), sent.span_id.strip(b"\0")) == (b"", b"")


def test_hostile_text_is_cut_and_can_be_encoded(emitted: Emitted) -> None:
    outcome = Score(value=1.0, reason="\ud800" * 1_000_000)
    emitted.events.take_news(
        News(evaluations=[committed(outcome=outcome, agent="a" * 1_000_000, session_id="\udfff" * 1_000_000)])
    )
    attributes = emitted.records[0].log_record.attributes or {}
    assert sum(len(value.encode()) for value in attributes.values() if isinstance(value, str)) < 5_000
    assert str(attributes["gen_ai.evaluation.explanation"]).endswith("…")


def test_a_loop_is_an_event_on_the_span_that_completed_it(emitted: Emitted) -> None:
    emitted.events.take_news(
        News(counted=[loop_found(trace_id=TRACE_ID, span_id=SPAN_ID, reason="\ud800" + "x" * 5000)])
    )
    [record] = [readable.log_record for readable in emitted.records]
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id, record.span_id) == (int(TRACE_ID, 16), int(SPAN_ID, 16))
    attributes = dict(record.attributes or {})
    assert len(str(attributes.pop("gen_ai.evaluation.explanation"))) == 1024
    assert attributes == {
        "gen_ai.evaluation.name": "loop_detection",
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.agent.name": "planner",
        "agenteval.finding.kind": "identical_call",
        "agenteval.finding.severity": "error",
        "agenteval.loop.kind": "identical_call",
        "agenteval.loop.mode": "alarm",
        "agenteval.service.name": "shop",
        "agenteval.service.version": "1.2.0",
    }


def test_of_other_findings_errors_are_events_and_what_was_told_live(emitted: Emitted) -> None:
    emitted.events.take_news(
        News(
            counted=[
                finding(kind="turn_failed", severity=Severity.ERROR, span_id=None),
                finding(kind="tool_failed"),
                finding(kind="answer_cut", mode=Mode.OBSERVE),
            ]
        )
    )
    attributes = [each.log_record.attributes or {} for each in emitted.records]
    assert [each["gen_ai.evaluation.name"] for each in attributes] == ["turn_failed", "answer_cut"]
    assert not {"agenteval.loop.kind", "agenteval.loop.mode"} & set().union(*attributes)
    assert [finding_key(each.log_record) for each in emitted.records] == [
        (FOUND_IN, "turn_failed", ""),
        (FOUND_IN, "answer_cut", FOUND_ON),
    ]


def test_an_outcome_is_no_finding(emitted: Emitted) -> None:
    emitted.tell(committed())
    assert finding_key(emitted.records[0].log_record) is None
