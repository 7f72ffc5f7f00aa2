"""The collector's own gRPC service: the watch stream, reports of agents, and changes by people."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from agenteval_collector.emit.feed import Feed, Lost, Subscription
from agenteval_collector.ingest.shares import SHARER, Shares
from agenteval_collector.model.callers import Scope
from agenteval_collector.model.labels import Label
from agenteval_collector.model.reported_findings import reported_finding
from agenteval_collector.model.running_traces import SpanStart, StartsReport
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import (
    CollectorError,
    InvalidRequest,
    NotAllowed,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from agenteval_collector.runtime.grpc_status import abort
from agenteval_collector.serve.api import writes
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.wire import LATEST, encode, hex_id, id_of, optional_id, trace_id_of
from agenteval_collector.serve.doors.grpc_door import check_still_known
from otel_agenteval.finding import Finding
from otel_agenteval.internal.text import storable
from otel_agenteval.model import BASELINE, CONDITIONS
from otel_agenteval.outcome import Evaluation, Failure, Score
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceServicer

MAX_MISSED_SECONDS = 1e9
"""The most seconds that a watcher may have been away, some 30 years. A larger number is a mistake."""
MAX_STARTS = 10_000
"""The most starts in one report; our processor sends far fewer."""
MAX_FINDINGS = 1000
"""The most findings in one report."""
MAX_CHARACTERS = 1024
"""The most characters of an id or a name that are kept."""
_WAKE_SECONDS = 1.0

_SCOPES: Final[Mapping[tuple[Scope, ...], Sequence[str]]] = {
    (Scope.WRITE,): ("ReportStarts", "ReportRun", "ReportFeedback", "EndSession"),
    # An agent's process that may only write watches what is said of its own sessions.
    (Scope.READ, Scope.WRITE): ("Watch",),
    (Scope.LABEL,): ("LabelTrace", "LabelSession", "ResolveProblem", "MuteProblem", "JudgeTraces"),
    (Scope.ADMIN,): ("Delete",),
}
SCOPES: Final = {
    f"/{pb.DESCRIPTOR.services_by_name['EvaluationService'].full_name}/{method}": scopes
    for scopes, methods in _SCOPES.items()
    for method in methods
}
"""The scopes by method; a caller needs one of them."""

Response = TypeVar("Response")
Sent = TypeVar("Sent", pb.Outcome, pb.Finding)
Method: TypeAlias = Callable[["EvaluationService", Any, grpc.ServicerContext], Response]


def _answering(method: Callable[["EvaluationService", Any], Response]) -> Method[Response]:
    """Turn the errors of a service method into gRPC statuses."""

    @wraps(method)
    def answered(service: "EvaluationService", request: Any, context: grpc.ServicerContext) -> Response:
        try:
            return method(service, request)
        except CollectorError as error:
            abort(context, error)

    return answered


class EvaluationService(EvaluationServiceServicer):
    """The servicer for a synchronous `grpc.server`.

    It is made for each call, as `gate` holds the caller. A watcher occupies a thread of the server's pool and a slot of
    `watchers` for as long as it watches. Without a free slot for its caller it gets RESOURCE_EXHAUSTED. The pool must
    have that many threads more than ingestion needs.
    """

    def __init__(self, queries: Queries, gate: Gate, feed: Feed, watchers: Shares) -> None:
        self.queries = queries
        self._gate = gate
        self._feed = feed
        self._watchers = watchers

    @_answering
    def ReportRun(self, request: pb.ReportRunRequest) -> pb.ReportRunResponse:  # noqa: N802
        self._gate.report_run(_run_report(request))
        return pb.ReportRunResponse()

    @_answering
    def ReportStarts(self, request: pb.ReportStartsRequest) -> pb.ReportStartsResponse:  # noqa: N802
        self._gate.starts(_starts_report(request))
        return pb.ReportStartsResponse()

    @_answering
    def LabelTrace(self, request: pb.LabelTraceRequest) -> pb.LabelTraceResponse:  # noqa: N802
        label = Label(trace_id=trace_id_of(request.trace_id), drawn=request.drawn, **_label_fields(request))
        writes.keep_label(self.queries, self._gate, label)
        return pb.LabelTraceResponse()

    @_answering
    def LabelSession(self, request: pb.LabelSessionRequest) -> pb.LabelSessionResponse:  # noqa: N802
        label = Label(session_id=id_of("session_id", request.session_id), drawn=request.drawn, **_label_fields(request))
        writes.keep_label(self.queries, self._gate, label)
        return pb.LabelSessionResponse()

    @_answering
    def ReportFeedback(self, request: pb.ReportFeedbackRequest) -> pb.ReportFeedbackResponse:  # noqa: N802
        trace_id = None if _is_about_session(request) else trace_id_of(request.trace_id)
        session_id = optional_id("session_id", request.session_id)
        self._gate.feedback(Label(trace_id=trace_id, session_id=session_id, **_label_fields(request)))
        return pb.ReportFeedbackResponse()

    @_answering
    def ResolveProblem(self, request: pb.ResolveProblemRequest) -> pb.ResolveProblemResponse:  # noqa: N802
        writes.resolve_problem(self._gate, request.problem_id, by=request.author)
        return pb.ResolveProblemResponse()

    @_answering
    def MuteProblem(self, request: pb.MuteProblemRequest) -> pb.MuteProblemResponse:  # noqa: N802
        until = _time(request, "until_unix_nano")
        writes.mute_problem(self._gate, request.problem_id, until=until, by=request.author)
        return pb.MuteProblemResponse()

    @_answering
    def JudgeTraces(self, request: pb.JudgeTracesRequest) -> pb.JudgeTracesResponse:  # noqa: N802
        since = _time(request, "failed_since_unix_nano")
        waiting = writes.judge_again(self._gate, request.trace_ids, request.session_ids, since)
        return pb.JudgeTracesResponse(traces=waiting.traces, more=waiting.more)

    @_answering
    def Delete(self, request: pb.DeleteRequest) -> pb.Document:  # noqa: N802
        deletion: writes.DeleteRequest = {
            "session_id": request.session_id or None,
            "user_id": request.user_id or None,
            "deletion_id": request.deletion_id or None,
            "author": request.author or None,
        }
        deleted = writes.delete(self._gate, deletion, _time(request, "before_unix_nano"))
        return pb.Document(json=encode(deleted))

    @_answering
    def EndSession(self, request: pb.EndSessionRequest) -> pb.EndSessionResponse:  # noqa: N802
        return pb.EndSessionResponse(known=self._gate.end_session(id_of("session_id", request.session_id)))

    @_answering
    def _subscription(self, request: pb.WatchRequest) -> Subscription:
        missed: float = request.missed_seconds
        if not 0.0 <= missed <= MAX_MISSED_SECONDS:
            raise InvalidRequest(f"missed_seconds is {missed}, not a number from 0 to {MAX_MISSED_SECONDS:g}")
        process_id, caller = request.process_id or None, self._gate.caller
        sender = None if caller.may(Scope.READ) else caller.name
        return self._feed.subscribe(request.session_id or None, tuple(request.names), process_id, missed, sender)

    def Watch(  # noqa: N802
        self, request: pb.WatchRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.WatchResponse]:
        if not request.process_id and not self._gate.caller.may(Scope.READ):
            abort(context, NotAllowed("without the scope read, only what concerns a process_id is watched"))
        who = SHARER.get()
        if not self._watchers.take(who):
            abort(context, Overloaded("as many watchers as may be are connected already", retry_after=10.0))
        try:
            subscription = self._subscription(request, context)
            try:
                yield from _responses(subscription, context)
            finally:
                subscription.close()
        finally:
            self._watchers.give_back(who)


def _responses(subscription: Subscription, context: grpc.ServicerContext) -> Iterator[pb.WatchResponse]:
    # Closing wakes `get` at once when the client goes. False: the client had gone before this callback was added.
    if not context.add_callback(subscription.close):
        return
    # Headers are sent only once the watcher is registered, so that it misses nothing.
    context.send_initial_metadata(())
    while context.is_active():
        entry = subscription.get(_WAKE_SECONDS)
        try:
            check_still_known(context)
        except Unauthenticated as error:
            abort(context, error)
        match entry:
            case None if subscription.closed:
                if context.is_active():
                    abort(context, Unavailable("the collector is stopping; watch again when it is back"))
                return
            case None:
                pass
            case Evaluation() as evaluation:
                yield pb.WatchResponse(outcome=outcome_message(evaluation))
            case Finding() as finding:
                yield pb.WatchResponse(finding=finding_message(finding))
            case Lost(count):
                yield pb.WatchResponse(lost=count)


def outcome_message(evaluation: Evaluation) -> pb.Outcome:
    """Return an evaluation as a message of the watch stream; fields without a value stay unset."""
    outcome = evaluation.outcome
    return _message(
        pb.Outcome,
        evaluation,
        status=outcome.status,
        score=outcome.value if isinstance(outcome, Score) else None,
        reason=storable(outcome.reason),
        error_type=outcome.error_type if isinstance(outcome, Failure) else None,
        coverage=outcome.coverage,
        metadata_json=encode(dict(outcome.metadata)),
        evaluator_version=evaluation.version,
        evaluated_at_unix_nano=evaluation.evaluated_at,
    )


def finding_message(finding: Finding) -> pb.Finding:
    """Return a finding as a message of the watch stream; fields without a value stay unset."""
    return _message(
        pb.Finding,
        finding,
        reason=storable(finding.reason),
        found_at_unix_nano=finding.found_at,
        metadata_json=encode(dict(finding.metadata)),
    )


def _message(kind: type[Sent], source: object, **values: Any) -> Sent:
    """Return a message of this kind. Each field has the value of the attribute of the same name, unless it is given
    here."""
    names = (field.name for field in kind.DESCRIPTOR.fields)
    return kind(**{name: values[name] if name in values else getattr(source, name) for name in names})


def _run_report(request: pb.ReportRunRequest) -> RunReport:
    condition = request.condition or BASELINE
    if condition not in CONDITIONS:
        raise InvalidRequest(f"condition is {condition[:64]!r}, not one of {', '.join(CONDITIONS)}")
    confidence = _optional(request, "confidence")
    if confidence is not None and not 0.0 <= confidence <= 1.0:
        raise InvalidRequest(f"confidence is {confidence}, not a number from 0 to 1")
    if not (request.HasField("success") or request.HasField("confidence")):
        raise InvalidRequest("the report says nothing: give success, confidence, or both")
    return RunReport(
        task_id=id_of("task_id", request.task_id),
        run_id=id_of("run_id", request.run_id),
        condition=condition,
        success=_optional(request, "success"),
        confidence=confidence,
        agent=optional_id("agent", request.agent),
        service_version=optional_id("service_version", request.service_version),
        session_id=optional_id("session_id", request.session_id),
        reported_at=_time(request, "reported_at_unix_nano"),
    )


def _starts_report(request: pb.ReportStartsRequest) -> StartsReport:
    """Read the report. Raises InvalidRequest naming what cannot be taken."""
    if not request.process_id or len(request.process_id) > MAX_CHARACTERS:
        raise InvalidRequest(f"process_id has {len(request.process_id)} characters, not 1 to {MAX_CHARACTERS}")
    if len(request.starts) > MAX_STARTS or len(request.findings) > MAX_FINDINGS:
        raise InvalidRequest(
            f"{len(request.starts)} starts and {len(request.findings)} findings, more than {MAX_STARTS} and "
            f"{MAX_FINDINGS}; report them in several messages"
        )
    findings = (_finding(finding) for finding in request.findings)
    return StartsReport(
        process_id=request.process_id,
        service=request.service[:MAX_CHARACTERS] or None,
        starts=[_span_start(start) for start in request.starts],
        findings=[finding for finding in findings if finding is not None],
        all_open=request.all_open,
    )


def _span_start(start: pb.SpanStart) -> SpanStart:
    return SpanStart(
        trace_id=trace_id_of(start.trace_id),
        span_id=hex_id("span_id", start.span_id, 16),
        name=start.name[:MAX_CHARACTERS],
        session_id=start.session_id[:MAX_CHARACTERS] or None,
        agent=start.agent[:MAX_CHARACTERS] or None,
        started_at=start.started_at_unix_nano,
    )


def _finding(message: pb.Finding) -> Finding | None:
    """Return the finding; None for an unknown kind or mode, which a newer client may send."""
    trace_id = trace_id_of(message.trace_id)
    try:
        metadata = json.loads(message.metadata_json) if message.metadata_json else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"metadata_json is no JSON: {error}") from error
    fields = {name: getattr(message, name) for name in ("kind", "mode", "reason", "agent", "tool")}
    return reported_finding(
        {**fields, "metadata": metadata},
        trace_id=trace_id,
        span_id=hex_id("span_id", message.span_id, 16),
        session_id=message.session_id[:MAX_CHARACTERS] or trace_id,
        found_at=message.found_at_unix_nano,
    )


def _is_about_session(request: pb.ReportFeedbackRequest) -> bool:
    """Return whether the request is about a session; otherwise it is about a trace. Raises InvalidRequest unless
    exactly one is named."""
    if bool(request.trace_id) == bool(request.session_id):
        raise InvalidRequest("give either trace_id or session_id")
    return bool(request.session_id)


def _label_fields(
    request: pb.LabelTraceRequest | pb.LabelSessionRequest | pb.ReportFeedbackRequest,
) -> writes.LabelFields:
    return writes.label_fields(request.name, _optional(request, "value"), request.author, request.note)


def _optional(request: Message, field: str) -> Any:
    return getattr(request, field) if request.HasField(field) else None


def _time(request: Message, field: str) -> int | None:
    """Return the time in a field, in nanoseconds since the Unix epoch; None if it is not set."""
    time: int = getattr(request, field)
    if time > LATEST:
        raise InvalidRequest(f"{field} is {time}, after the year 2262")
    return time or None
