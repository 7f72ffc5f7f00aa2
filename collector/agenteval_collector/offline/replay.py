"""Recordings evaluated in this process, by the same parts as live, without waiting for anything."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.api.documents import ReplayDocument, RunName
from agenteval_collector.api.reliability import reliability_document
from agenteval_collector.api.wire import found
from agenteval_collector.assembly import Assembler, Senders, Unconnected, Waits
from agenteval_collector.config import Settings
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.telemetry import LoggedRequest, Signal
from agenteval_collector.offline.dataset import Dataset
from agenteval_collector.receiver.otlp_json import parse_json
from agenteval_collector.receiver.validity import Limits, check
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.errors import InvalidRequest, PermanentError
from agenteval_collector.wiring.offline import OfflineCollector, Progress

NO_WAIT = Waits(settle=1.0, settle_logs=1.0, silence=1.0, max_age=1.0)
"""Waits that do not matter: all that was recorded is complete when it was read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded export request; `place` says in which file, and where in it."""

    signal: Signal
    body: bytes
    place: str


def read_recording(path: Path) -> Iterator[Recorded]:
    """The requests of a recording; raises InvalidRequest naming the file and the place in it.

    `X.otlp.pb` holds requests that are each prefixed with their length as a varint, `X.logs.otlp.pb` beside it the
    log records of the same run. Anything else is read as OTLP/JSON, one request a line or one in the file.
    """
    if path.name.endswith(".logs.otlp.pb"):
        yield from _delimited(path, Signal.LOGS)
    elif path.name.endswith(".pb"):
        yield from _delimited(path, Signal.TRACES)
        beside = path.with_name(path.name.removesuffix(".otlp.pb") + ".logs.otlp.pb")
        if path.name.endswith(".otlp.pb") and beside.exists():
            yield from _delimited(beside, Signal.LOGS)
    else:
        yield from _json(path)


def replay(
    requests: Iterable[Recorded],
    settings: Settings,
    progress: Progress = lambda _traces: None,
    dataset: Dataset | None = None,
) -> ReplayDocument:
    """Return `{traces, sessions, reliability}` in the shapes of docs/api.md, with every session taken for over.

    `dataset` says what came of the runs; its runs without a trace are `reports_without_traces`.
    """
    clock, truth = SystemClock(), dataset or Dataset()
    newest = _assembled(requests, settings, clock)
    # All is known before anything is scored: every trace has one revision, and sessions grow in order of time.
    traces = sorted((replace(trace, revision=1) for trace in newest.values()), key=_place)
    with (
        tempfile.TemporaryDirectory(prefix="agenteval-replay-") as folder,
        OfflineCollector(settings, Path(folder), clock, newest, truth) as collector,
    ):
        collector.score(traces, progress)
        for report in truth.reports:
            collector.store.report_run(report)
        session_ids = collector.store.live_sessions()
        collector.store.finalize(session_ids)
        queries = collector.queries
        return {
            "traces": [found(queries.trace(trace.trace_id), f"trace {trace.trace_id}") for trace in traces],
            "sessions": [found(queries.session(session_id), f"session {session_id!r}") for session_id in session_ids],
            "reliability": [reliability_document(report) for report in collector.reliability.items()],
            "reports_without_traces": _without_traces(truth, collector),
        }


def _assembled(requests: Iterable[Recorded], settings: Settings, clock: Clock) -> dict[str, AssembledTrace]:
    """The newest revision of every trace, as it is when all requests have come."""
    alone = Unconnected()
    assembler = Assembler(
        clock, NoTelemetry(), alone, alone, alone, alone, Senders(), waits=NO_WAIT, max_open_bytes=2**63
    )
    limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
    newest: dict[str, AssembledTrace] = {}
    for offset, recorded in enumerate(requests, 1):
        try:
            body = check(recorded.signal, recorded.body, limits).body
        except PermanentError as error:
            raise InvalidRequest(f"{recorded.place}: {error}") from error
        if body is not None:
            request = LoggedRequest(offset, "default", recorded.signal, clock.now(), body)
            newest |= {trace.trace_id: trace for trace in assembler.take([request])}
    return newest | {trace.trace_id: trace for trace in assembler.complete_all()}


def _without_traces(dataset: Dataset, collector: OfflineCollector) -> list[RunName]:
    """The runs that the dataset speaks of and no trace belongs to: most likely another spelling of their ids."""
    known = collector.runs()
    return [
        {"task_id": report.task_id, "run_id": report.run_id, "condition": report.condition}
        for report in dataset.reports
        if (report.task_id, report.run_id, report.condition) not in known
    ]


def _place(trace: AssembledTrace) -> tuple[int, str]:
    """Return the place of the trace in time: the start of its first span, and its id."""
    starts = [Span.FromString(raw).start_time_unix_nano for raw, _ in trace.spans]
    return min(starts, default=0), trace.trace_id


def _delimited(path: Path, signal: Signal) -> Iterator[Recorded]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be read: {error.strerror}") from error
    if not data:
        raise InvalidRequest(f"{path}: is empty")
    start = 0
    while start < len(data):
        try:
            size, first = _varint(data, start)
        except IndexError as error:
            raise InvalidRequest(f"{path}: ends within a length, at byte {start}") from error
        if first + size > len(data):
            raise InvalidRequest(f"{path}: ends within a request of {size} bytes, at byte {first}")
        yield Recorded(signal, data[first : first + size], f"{path}, byte {first}")
        start = first + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint at `at`, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _json(path: Path) -> Iterator[Recorded]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path}: cannot be read as text: {error}") from error
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                documents += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                raise InvalidRequest(f"{path}: line {number} is not JSON: {error}") from error
    if not documents:
        raise InvalidRequest(f"{path}: is empty")
    for number, document in enumerate(documents, 1):
        place = f"{path}, request {number}"
        if not isinstance(document, dict) or not ({"resourceSpans", "resourceLogs"} & document.keys()):
            raise InvalidRequest(f"{place}: has neither resourceSpans nor resourceLogs, so it is no OTLP/JSON")
        signal = Signal.LOGS if "resourceLogs" in document else Signal.TRACES
        try:
            yield Recorded(signal, parse_json(signal, json.dumps(document)).SerializeToString(), place)
        except InvalidRequest as error:
            raise InvalidRequest(f"{place}: {error}") from error
