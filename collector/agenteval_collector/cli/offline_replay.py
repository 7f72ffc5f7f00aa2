"""Evaluate recordings in this process, by the same parts as in a live collector, but without any wait."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.app.offline import OfflineCollector
from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.cli.dataset import Dataset
from agenteval_collector.cli.recordings import Recorded
from agenteval_collector.config.settings import AssemblyConfig, Settings
from agenteval_collector.ingest.event_spans import Turns, with_event_spans
from agenteval_collector.ingest.validity import Limits, check
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import NoTelemetry
from agenteval_collector.model.logged_requests import LoggedRequest
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.errors import InvalidRequest, PermanentError
from agenteval_collector.serve.api.document import document
from agenteval_collector.serve.api.figure_documents import CaseDocument, ReplayDocument, RunNameDocument
from agenteval_collector.serve.api.figure_rendering import reliability_document
from agenteval_collector.serve.api.wire import found

NO_WAIT = AssemblyConfig(
    settle=1.0, settle_logs=1.0, silence=1.0, max_age=1.0, max_open_bytes=2**63, max_recent_bytes=0
)
"""Settings whose waits do not matter: every recorded trace is complete when the whole recording was read."""


def replay(
    requests: Iterable[Recorded],
    settings: Settings,
    progress: Callable[[int], None],
    dataset: Dataset | None = None,
) -> ReplayDocument:
    """Evaluate recorded requests. Return `{traces, sessions, reliability}` in the shapes of docs/api.md.

    Every session counts as over. `dataset` holds the ground truth about the runs; `reports_without_traces` names its
    runs without a trace.
    """
    clock, truth = SystemClock(), dataset or Dataset()
    newest = _assembled(requests, settings, clock)
    # Everything is read before anything is scored. So each trace has one revision, and sessions grow in order of time.
    traces = sorted((replace(trace, revision=1) for trace in newest.values()), key=_place)
    with (
        tempfile.TemporaryDirectory(prefix="agenteval-replay-") as folder,
        OfflineCollector(settings, Path(folder), clock, newest, truth) as collector,
    ):
        collector.score(traces, progress)
        for report in truth.reports:
            collector.store.report_run(report)
        # Nothing more comes, so every session is over.
        session_ids = collector.store.live_sessions()
        collector.store.finalize(session_ids)
        queries = collector.queries
        return {
            "traces": [found(queries.trace(trace.trace_id), f"trace {trace.trace_id}") for trace in traces],
            "sessions": [found(queries.session(session_id), f"session {session_id!r}") for session_id in session_ids],
            "reliability": [reliability_document(report) for report in collector.reliability.page().items],
            "reports_without_traces": _without_traces(truth, collector),
            "cases": _cases(truth, collector),
        }


def _assembled(requests: Iterable[Recorded], settings: Settings, clock: Clock) -> dict[str, AssembledTrace]:
    """Return the newest revision of every trace after all requests, by trace id."""
    assembler = Assembler(clock, NoTelemetry(), Senders(), NO_WAIT, max_trace_bytes=settings.server.max_trace_bytes)
    limits = Limits(request=settings.server.max_request_bytes, span=settings.server.max_span_bytes)
    newest: dict[str, AssembledTrace] = {}
    turns = Turns()
    for offset, recorded in enumerate(requests, 1):
        try:
            checked = check(recorded.signal, recorded.body, limits)
        except PermanentError as error:
            raise InvalidRequest(f"{recorded.place}: {error}") from error
        for body in checked.bodies:
            for signal, part in with_event_spans(recorded.signal, body, turns):
                request = LoggedRequest(offset, "default", signal, clock.now(), part)
                newest |= {trace.trace_id: trace for trace in assembler.take_requests([request])}
    return newest | {trace.trace_id: trace for trace in assembler.complete_all()}


def _without_traces(dataset: Dataset, collector: OfflineCollector) -> list[RunNameDocument]:
    """Return the runs in the dataset that have no trace. Most likely, the recording spells their ids differently."""
    runs = collector.runs()
    return [
        document(RunNameDocument, report)
        for report in dataset.reports
        if (report.task_id, report.run_id, report.condition) not in runs
    ]


def _cases(dataset: Dataset, collector: OfflineCollector) -> list[CaseDocument]:
    """Return what came back in the traces of each case."""
    by_task: dict[str, list[str]] = {}
    for run, trace_ids in collector.runs().items():
        by_task.setdefault(run.task_id, []).extend(trace_ids)
    return [
        {"task_id": case.task_id, "trace_ids": sorted(by_task.get(case.task_id, [])), "forbid": list(case.forbid)}
        for case in dataset.cases
    ]


def _place(trace: AssembledTrace) -> tuple[int, str]:
    """Return the place of a trace: the start of its first span in nanoseconds since the Unix epoch, and its id."""
    starts = [Span.FromString(raw).start_time_unix_nano for raw, _ in trace.spans]
    return min(starts, default=0), trace.trace_id
