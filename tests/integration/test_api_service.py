"""Our own gRPC service, over a real channel and a real server."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from agenteval_collector.emit.feed import Feed
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.ingest.shares import Shares
from agenteval_collector.model.callers import ANONYMOUS
from agenteval_collector.model.labels import Label
from agenteval_collector.model.news import News
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import Overloaded, Unavailable
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.service import SCOPES, EvaluationService
from google.rpc import error_details_pb2, status_pb2

from otel_agenteval.outcome import Failure, Status, Unscored
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import (
    EvaluationServiceStub,
    add_EvaluationServiceServicer_to_server,
)
from tests.support.clock import ManualClock
from tests.support.evaluations import SPAN_ID, TRACE_ID, committed
from tests.support.eventually import eventually
from tests.support.keys import door
from tests.support.memory_queries import GOOD_TRACE, MemoryQueries, MemoryReports
from tests.support.travel_agent import travel_agent

DEADLINE = 20
THREADS = 4


@contextmanager
def serve(service: EvaluationService) -> Iterator[EvaluationServiceStub]:
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), interceptors=[door(SCOPES, slots=THREADS)])
    add_EvaluationServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield EvaluationServiceStub(channel)
    finally:
        server.stop(grace=0).wait(DEADLINE)


def label(**changes: Any) -> pb.LabelTraceRequest:
    """A label of the good trace's coherence, but for `changes`."""
    return pb.LabelTraceRequest(**{"trace_id": GOOD_TRACE, "name": "coherence", "value": 1.0, **changes})


class Nobody:
    """No process takes part in any session."""

    def processes_in(self, session_id: str) -> frozenset[str]:
        return frozenset()

    processes_of = processes_in


@pytest.fixture
def reports() -> MemoryReports:
    return MemoryReports()


@pytest.fixture
def feed() -> Feed:
    return Feed(
        TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True).own_work,
        Nobody(),
        ManualClock(),
        capacity=4,
    )


@pytest.fixture
def stub(reports: MemoryReports, feed: Feed) -> Iterator[EvaluationServiceStub]:
    with serve(EvaluationService(travel_agent(), Gate(reports, ANONYMOUS), feed, Shares(3))) as stub:
        yield stub


def watch(stub: EvaluationServiceStub, **request: Any) -> grpc.Call:
    """A watch that is known to have begun: the server sends its headers after it has subscribed."""
    call = stub.Watch(pb.WatchRequest(**request), timeout=DEADLINE)
    call.initial_metadata()
    return call


@pytest.mark.parametrize(
    ("method", "request_", "code", "names"),
    [
        pytest.param(
            "ReportRun", pb.ReportRunRequest(run_id="1", success=True), "INVALID_ARGUMENT", "task_id", id="no task id"
        ),
        pytest.param(
            "ReportRun", pb.ReportRunRequest(task_id="t", success=True), "INVALID_ARGUMENT", "run_id", id="no run id"
        ),
        pytest.param(
            "ReportRun", pb.ReportRunRequest(task_id="t", run_id="1"), "INVALID_ARGUMENT", "says nothing", id="empty"
        ),
        pytest.param(
            "ReportRun",
            pb.ReportRunRequest(task_id="t", run_id="1", success=True, reported_at_unix_nano=2**63),
            "INVALID_ARGUMENT",
            "after the year 2262",
            id="reported too late",
        ),
        pytest.param(
            "ReportRun",
            pb.ReportRunRequest(task_id="t", run_id="1", success=True, service_version="1" * 1025),
            "INVALID_ARGUMENT",
            "service_version has 1025",
            id="version too long",
        ),
        pytest.param(
            "ReportRun",
            pb.ReportRunRequest(task_id="t", run_id="1", condition="chaos"),
            "INVALID_ARGUMENT",
            "condition",
            id="a condition that does not exist",
        ),
        pytest.param(
            "ReportRun",
            pb.ReportRunRequest(task_id="t", run_id="1", confidence=1.01),
            "INVALID_ARGUMENT",
            "confidence",
            id="more than certain",
        ),
        pytest.param(
            "ReportRun",
            pb.ReportRunRequest(task_id="t", run_id="1", confidence=float("nan")),
            "INVALID_ARGUMENT",
            "confidence",
            id="a confidence that is no number",
        ),
        pytest.param(
            "ReportRun",
            pb.ReportRunRequest(task_id="t" * 1025, run_id="1", success=True),
            "INVALID_ARGUMENT",
            "task_id",
            id="an id of more than 1024 characters",
        ),
        pytest.param("EndSession", pb.EndSessionRequest(), "INVALID_ARGUMENT", "session_id", id="end of no session"),
        pytest.param("JudgeTraces", pb.JudgeTracesRequest(), "INVALID_ARGUMENT", "give either", id="judge nothing"),
        pytest.param(
            "JudgeTraces",
            pb.JudgeTracesRequest(trace_ids=[GOOD_TRACE], failed_since_unix_nano=1),
            "INVALID_ARGUMENT",
            "give either",
            id="judge some and all",
        ),
        pytest.param(
            "JudgeTraces",
            pb.JudgeTracesRequest(trace_ids=[GOOD_TRACE] * 501),
            "INVALID_ARGUMENT",
            "at most 500",
            id="judge too many",
        ),
        pytest.param("LabelTrace", label(trace_id="0" * 32), "NOT_FOUND", "trace", id="a label of an unknown trace"),
        pytest.param("LabelTrace", label(trace_id="1"), "INVALID_ARGUMENT", "trace_id", id="a label of no trace"),
        pytest.param("LabelTrace", label(name=""), "INVALID_ARGUMENT", "name", id="a label without a name"),
        pytest.param(
            "LabelTrace", label(name="coherense"), "INVALID_ARGUMENT", "coherence, loop_detection", id="a misspelt name"
        ),
        pytest.param("LabelTrace", label(value=None), "INVALID_ARGUMENT", "value is absent", id="a label of no value"),
        pytest.param("LabelTrace", label(value=1.5), "INVALID_ARGUMENT", "value is 1.5", id="a label above 1"),
        pytest.param(
            "LabelTrace", label(value=float("nan")), "INVALID_ARGUMENT", "value is nan", id="a label that is no number"
        ),
        pytest.param("LabelTrace", label(author="a" * 1025), "INVALID_ARGUMENT", "author", id="a long author"),
        pytest.param("LabelTrace", label(note="a" * 10_001), "INVALID_ARGUMENT", "note", id="a long note"),
    ],
)
def test_refusals_have_their_status_and_name_the_field(
    stub: EvaluationServiceStub, reports: MemoryReports, method: str, request_: object, code: str, names: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        getattr(stub, method)(request_, timeout=DEADLINE)
    assert error.value.code().name == code
    assert names in error.value.details()
    assert not reports.runs
    assert not reports.ended
    assert not reports.labels


def test_what_is_reported_arrives_as_it_was_said(stub: EvaluationServiceStub, reports: MemoryReports) -> None:
    stub.ReportRun(
        pb.ReportRunRequest(
            task_id="refund", run_id="1", success=True, agent="clerk", service_version="1.4", reported_at_unix_nano=5
        ),
        timeout=DEADLINE,
    )
    stub.ReportRun(
        pb.ReportRunRequest(
            task_id="refund", run_id="2", condition="fault", success=False, confidence=0.0, session_id="s-42"
        ),
        timeout=DEADLINE,
    )
    assert stub.EndSession(pb.EndSessionRequest(session_id="s-42"), timeout=DEADLINE).known
    assert not stub.EndSession(pb.EndSessionRequest(session_id="s-43"), timeout=DEADLINE).known
    assert reports.runs == [
        RunReport(task_id="refund", run_id="1", success=True, agent="clerk", service_version="1.4", reported_at=5),
        RunReport(task_id="refund", run_id="2", condition="fault", success=False, confidence=0.0, session_id="s-42"),
    ]
    assert reports.ended == ["s-42", "s-43"]


def test_what_is_to_be_judged_arrives_as_it_was_given(stub: EvaluationServiceStub, reports: MemoryReports) -> None:
    some = stub.JudgeTraces(pb.JudgeTracesRequest(trace_ids=[GOOD_TRACE.upper()]), timeout=DEADLINE)
    failed = stub.JudgeTraces(pb.JudgeTracesRequest(failed_since_unix_nano=5), timeout=DEADLINE)
    sessions = stub.JudgeTraces(pb.JudgeTracesRequest(session_ids=["s-42", GOOD_TRACE.upper()]), timeout=DEADLINE)
    assert reports.again == [((GOOD_TRACE,), (), 0), ((), (), 5), ((), ("s-42", GOOD_TRACE.upper()), 0)]
    assert sessions.traces == 2
    assert (some.traces, some.more, failed.traces, failed.more) == (1, False, 0, True)


def test_a_label_arrives_as_it_was_given(stub: EvaluationServiceStub, reports: MemoryReports) -> None:
    stub.LabelTrace(label(trace_id=GOOD_TRACE.upper(), value=0.0), timeout=DEADLINE)
    stub.LabelTrace(label(value=0.25, author="ann", note="booked\nthe wrong day"), timeout=DEADLINE)
    assert reports.labels == [
        Label(trace_id=GOOD_TRACE, name="coherence", value=0.0),
        Label(trace_id=GOOD_TRACE, name="coherence", value=0.25, author="ann", note="booked\nthe wrong day"),
    ]


def test_a_label_of_a_session_arrives_as_it_was_given(stub: EvaluationServiceStub, reports: MemoryReports) -> None:
    session = next(each for each in travel_agent().sessions().items if each["outcomes"])
    about: dict[str, Any] = {"session_id": session["session_id"], "name": session["outcomes"][0]["name"]}
    stub.LabelSession(pb.LabelSessionRequest(value=0.0, **about), timeout=DEADLINE)
    stub.LabelSession(pb.LabelSessionRequest(value=1.0, author="ann", drawn=True, **about), timeout=DEADLINE)
    assert reports.labels == [Label(value=0.0, **about), Label(value=1.0, author="ann", drawn=True, **about)]


@pytest.mark.parametrize(
    ("request_", "code", "says"),
    [
        (pb.LabelSessionRequest(name="x", value=1.0), "INVALID_ARGUMENT", "session_id is empty"),
        (pb.LabelSessionRequest(session_id="nobody", name="x", value=1.0), "NOT_FOUND", "session 'nobody'"),
        (pb.LabelSessionRequest(session_id="s", name="x"), "INVALID_ARGUMENT", "value is absent"),
        (
            pb.LabelSessionRequest(session_id="booking/2026-03/αθήνα", name="x", value=1.0),
            "INVALID_ARGUMENT",
            "the session has",
        ),
    ],
)
def test_a_label_of_no_session_is_refused(
    stub: EvaluationServiceStub, reports: MemoryReports, request_: pb.LabelSessionRequest, code: str, says: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        stub.LabelSession(request_, timeout=DEADLINE)
    assert (error.value.code().name, reports.labels) == (code, [])
    assert says in error.value.details()


class RefusingReports(MemoryReports):
    """Wants its callers to come back later."""

    def report_run(self, report: RunReport) -> None:
        raise Unavailable("the disk is full", retry_after=2.5)

    def end_session(self, session_id: str) -> bool:
        raise Overloaded("too many callers", retry_after=0.25)


@pytest.mark.parametrize(
    ("method", "request_", "code", "seconds"),
    [
        ("ReportRun", pb.ReportRunRequest(task_id="t", run_id="1", success=True), "UNAVAILABLE", 2.5),
        ("EndSession", pb.EndSessionRequest(session_id="s"), "RESOURCE_EXHAUSTED", 0.25),
    ],
)
def test_retryable_errors_say_when_to_come_back(
    feed: Feed, method: str, request_: object, code: str, seconds: float
) -> None:
    with (
        serve(EvaluationService(MemoryQueries(), Gate(RefusingReports(), ANONYMOUS), feed, Shares(3))) as stub,
        pytest.raises(grpc.RpcError) as error,
    ):
        getattr(stub, method)(request_, timeout=DEADLINE)
    assert error.value.code().name == code
    metadata: Any = error.value.trailing_metadata()
    details = status_pb2.Status.FromString(dict(metadata)["grpc-status-details-bin"])
    retry = error_details_pb2.RetryInfo()
    assert details.details[0].Unpack(retry)
    assert retry.retry_delay.ToNanoseconds() / 1e9 == seconds


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e10])
def test_a_time_that_none_can_have_missed_is_refused(stub: EvaluationServiceStub, seconds: float) -> None:
    with pytest.raises(grpc.RpcError) as error:
        next(stub.Watch(pb.WatchRequest(missed_seconds=seconds), timeout=DEADLINE))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"missed_seconds is {seconds}" in error.value.details()


def test_a_watcher_gets_what_is_committed_after_it_came(stub: EvaluationServiceStub, feed: Feed) -> None:
    call = watch(stub)
    feed.take_news(News(evaluations=[committed(revision=7)]))
    assert next(call) == pb.WatchResponse(
        outcome=pb.Outcome(
            name="coherence",
            subject="trace",
            subject_id=TRACE_ID,
            session_id="s-1",
            trace_id=TRACE_ID,
            span_id=SPAN_ID,
            status="scored",
            score=0.75,
            success=True,
            threshold=0.5,
            reason="answers the question",
            method="embedding",
            coverage=1.0,
            metadata_json=b"{}",
            evaluator_version="1",
            revision=7,
            evaluated_at_unix_nano=1_700_000_000_000_000_000,
        )
    )


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Unscored(status=Status.NO_CONTENT, reason="said \ud800"), "no_content"),
        (Failure(error_type="timeout", reason="judge"), "failed"),
    ],
)
def test_what_there_is_none_of_is_absent(
    stub: EvaluationServiceStub, feed: Feed, outcome: Unscored | Failure, status: str
) -> None:
    call = watch(stub)
    feed.take_news(News(evaluations=[committed(outcome=outcome, trace_id=None, span_id=None, threshold=None)]))
    message = next(call).outcome
    assert message.status == status
    assert [name for name in ("score", "success", "threshold", "coverage") if message.HasField(name)] == []
    assert (message.trace_id, message.span_id) == ("", "")


def test_a_watcher_gets_only_the_session_and_names_it_asked_for(stub: EvaluationServiceStub, feed: Feed) -> None:
    call = watch(stub, session_id="mine", names=["loop_detection", "coherence"])
    feed.take_news(News(evaluations=[committed(session_id="other"), committed(session_id="mine", name="confidence")]))
    feed.take_news(News(evaluations=[committed(session_id="mine", name="loop_detection")]))
    assert next(call).outcome.name == "loop_detection"


def test_a_watcher_learns_how_much_it_lost(stub: EvaluationServiceStub, feed: Feed) -> None:
    call = watch(stub)
    # One batch of more than the queue holds cannot be read in time by anyone.
    feed.take_news(News(evaluations=[committed(revision=n) for n in range(1, 8)]))
    assert next(call).lost == 3
    assert [next(call).outcome.revision for _ in range(4)] == [4, 5, 6, 7]


def test_watchers_are_bounded_and_make_room_when_they_go(stub: EvaluationServiceStub, feed: Feed) -> None:
    first, second = watch(stub), watch(stub)
    with pytest.raises(grpc.RpcError) as error:
        next(stub.Watch(pb.WatchRequest(), timeout=DEADLINE))
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Two of the four threads are held; the others still answer.
    assert stub.EndSession(pb.EndSessionRequest(session_id="s-42"), timeout=DEADLINE).known

    first.cancel()

    def admitted() -> grpc.Call | None:
        call = stub.Watch(pb.WatchRequest(), timeout=DEADLINE)
        # Refused calls have their status at once; admitted ones have headers and no status.
        call.initial_metadata()
        return call if call.is_active() else None

    third = eventually(admitted)
    feed.take_news(News(evaluations=[committed(revision=5)]))
    assert next(third).outcome.revision == 5
    assert next(second).outcome.revision == 5


def test_the_end_of_the_feed_ends_the_watch_after_what_was_said(stub: EvaluationServiceStub, feed: Feed) -> None:
    call = watch(stub)
    feed.take_news(News(evaluations=[committed(revision=1)]))
    feed.close()
    assert next(call).outcome.revision == 1
    with pytest.raises(grpc.RpcError) as error:
        next(call)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.RpcError) as late:
        next(stub.Watch(pb.WatchRequest(), timeout=DEADLINE))
    assert late.value.code() is grpc.StatusCode.UNAVAILABLE
