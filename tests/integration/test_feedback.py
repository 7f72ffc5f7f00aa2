"""Feedback of end users, from the agent's process to the trace and the session that it is about."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.labels import Label, LabelSource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer, format_trace_id, use_span
from typer.testing import CliRunner

import otel_agenteval
from otel_agenteval import AgentEvalSpanProcessor
from otel_agenteval.outcome import Method, Score, SubjectKind
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from otel_agenteval.sending.export import MAX_REPORTS
from tests.support.evaluations import evaluation
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

TRACE = trace_id(1).hex()
GEN_AI = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("collector")) as running:
        yield running


@pytest.fixture
def processor(collector: RunningCollector) -> Iterator[AgentEvalSpanProcessor]:
    made = AgentEvalSpanProcessor(f"http://{collector.addresses['grpc']}")
    yield made
    made.shutdown()


@pytest.fixture
def tracer(processor: AgentEvalSpanProcessor) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("agent")


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def said(document: Any) -> list[tuple[Any, ...]]:
    return [tuple(each[key] for key in ("name", "value", "source", "author", "note")) for each in document["labels"]]


def test_what_a_user_says_stands_on_the_trace_or_the_session_and_may_come_before_them(
    collector: RunningCollector, processor: AgentEvalSpanProcessor, tracer: Tracer
) -> None:
    with otel_agenteval.session("s-1", user_id="u-7"):
        otel_agenteval.feedback(False, note="it was the wrong day")
        span = tracer.start_span("invoke_agent clerk", attributes=GEN_AI)
        with use_span(span):
            otel_agenteval.feedback(0.75, name="stars")
    assert processor.force_flush()
    found = format_trace_id(span.get_span_context().trace_id)
    assert collector.get(f"/api/v1/traces/{found}") is None
    span.end()
    assert processor.force_flush()
    assert said(collector.scored(found)) == [("stars", 0.75, "user", "u-7", None)]
    session = collector.get("/api/v1/sessions/s-1")
    assert said(session) == [("user_feedback", 0.0, "user", "u-7", "it was the wrong day")]
    assert processor.stats.reports == {"waiting": 0, "delivered": 2}
    for page, text in ((f"/traces/{found}", "User u-7 says that stars is 0.75."), ("/sessions/s-1", "wrong day")):
        assert text in collector.get(page)
    url = f"http://{collector.addresses['web']}"
    for arguments in (("trace", found), ("why", found), ("session", "s-1")):
        shown = CliRunner().invoke(command_line(), [*arguments, "--url", url], env={"COLUMNS": "200"})
        assert "User u-7 says that" in shown.stdout


def test_feedback_names_the_trace_or_the_session_that_it_is_about(
    collector: RunningCollector, processor: AgentEvalSpanProcessor
) -> None:
    with otel_agenteval.session("s-other", user_id="u-8"):
        otel_agenteval.feedback(True, session_id="s-named")
        otel_agenteval.feedback(True, trace_id=TRACE, session_id="s-named", name="coherence")
    otel_agenteval.feedback(False, session_id="s-named")
    otel_agenteval.feedback(True, session_id="s-named", note="now it is fine")
    assert processor.force_flush()
    collector.send(traces(turn(1, "hi", "hello", session="s-named")))
    assert said(collector.scored(TRACE)) == [("coherence", 1.0, "user", "u-8", None)]
    assert said(collector.get("/api/v1/sessions/s-named")) == [
        ("user_feedback", 1.0, "user", "u-8", None),
        ("user_feedback", 1.0, "user", None, "now it is fine"),
    ]


def test_feedback_waits_for_nobody_and_is_delivered_when_the_collector_is_there(tmp_path: Path) -> None:
    processor = AgentEvalSpanProcessor("http://127.0.0.1:9", shutdown_timeout=0.1)
    try:
        for _ in range(MAX_REPORTS + 1):
            otel_agenteval.feedback(True, session_id="s")
        assert processor.stats.reports == {"waiting": MAX_REPORTS, "queue_full": 1, "delivered": 0}
    finally:
        processor.shutdown()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param({"value": 5, "session_id": "s"}, "feedback is 5", id="stars out of range"),
        pytest.param({"value": float("nan"), "session_id": "s"}, "feedback is nan", id="no number"),
        pytest.param({"value": "good", "session_id": "s"}, "feedback is 'good'", id="a word"),
        pytest.param({"value": True}, "feedback is about nothing", id="nothing to be about"),
        pytest.param({"value": True, "trace_id": "12"}, "trace_id is '12'", id="a bad trace id"),
        pytest.param({"value": True, "session_id": ""}, "session_id is ''", id="an empty session"),
        pytest.param({"value": True, "session_id": "s", "name": ""}, "name is ''", id="no name"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        otel_agenteval.feedback(**arguments)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({}, "give either trace_id or session_id", id="about nothing"),
        pytest.param({"trace_id": TRACE, "session_id": "s"}, "give either", id="about both"),
        pytest.param({"session_id": "s", "value": 1.5}, "value is 1.5", id="above 1"),
        pytest.param({"session_id": "s", "value": None}, "value is absent", id="no value"),
    ],
)
def test_the_service_refuses_what_cannot_be_meant(
    collector: RunningCollector, changes: dict[str, Any], says: str
) -> None:
    request = pb.ReportFeedbackRequest(**{"name": "user_feedback", "value": 1.0, **changes})
    with pytest.raises(grpc.RpcError) as error:
        EvaluationServiceStub(collector.channel).ReportFeedback(request, timeout=20)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in error.value.details()


def test_users_are_compared_with_the_judge_apart_from_people_on_traces_and_sessions(scoring: Scoring) -> None:
    judged: dict[str, Any] = {"method": Method.LLM, "subject_id": TRACE, "outcome": Score(value=0.9, reason="")}
    goal: dict[str, Any] = {**judged, "name": "goal_success", "subject": SubjectKind.SESSION, "subject_id": "s"}
    scoring.store.commit(Commit(evaluations=[evaluation(name="task_completion", **judged), evaluation(**goal)]))
    scoring.store.label(Label(trace_id=TRACE, name="task_completion", value=1.0, author="ann"))
    scoring.store.label(
        Label(trace_id=TRACE, name="user_feedback", value=0.0, author="ann", source=LabelSource.USER),
        Label(session_id="s", name="user_feedback", value=0.5, source=LabelSource.USER),
        # It is about a trace of this name, not about the session.
        Label(trace_id="s", name="user_feedback", value=0.5, source=LabelSource.USER),
    )
    items = scoring.queries.agreement()
    assert [(each["name"], each["source"], each["labels"]) for each in items] == [
        ("goal_success", "user", 1),
        ("task_completion", "person", 1),
        ("task_completion", "user", 1),
    ]
    with scoring.store.snapshot() as records:
        means = [labelled.label for each in records.labelled(None) for labelled in each.scores]
    assert means == [0.5, 1.0, 0.0]


def test_feedback_that_no_telemetry_came_for_is_forgotten_in_time(scoring: Scoring) -> None:
    scoring.put(assembled(turn(1, "hi", "hello", session="s")))
    said_of: dict[str, Any] = {"name": "user_feedback", "value": 1.0, "source": LabelSource.USER}
    scoring.store.label(
        Label(trace_id=TRACE, **said_of),
        Label(session_id="s", **said_of),
        Label(trace_id="f" * 32, **said_of),
        Label(session_id="nobody's", **said_of),
    )
    scoring.clock.advance(25 * 3600.0)
    scoring.store.label(Label(session_id="new", **said_of))
    with scoring.store.snapshot() as snapshot:
        assert [len(each) for each in snapshot.trace_labels((TRACE, "f" * 32)).values()] == [1, 0]
        assert [len(snapshot.session_labels(each)) for each in ("s", "nobody's", "new")] == [1, 0, 1]
