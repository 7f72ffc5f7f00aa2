"""Read a process's report of what runs in it: hostile input, checked and cut."""

import json

from agenteval_collector.api.wire import hex_id, trace_id_of
from agenteval_collector.model.reported import reported_finding
from agenteval_collector.model.running import SpanStart, StartsReport
from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.finding import Finding
from otel_agenteval.proto.v1 import evaluation_pb2 as pb

MAX_STARTS = 10_000
"""Starts in one report; our processor sends far fewer."""
MAX_FINDINGS = 1000
MAX_TEXT = 1024
"""Characters of an id or a name that are kept."""


def starts_report(request: pb.ReportStartsRequest) -> StartsReport:
    """Read the report. Raises InvalidRequest naming what cannot be taken."""
    if not request.process_id or len(request.process_id) > MAX_TEXT:
        raise InvalidRequest(f"process_id has {len(request.process_id)} characters, not 1 to {MAX_TEXT}")
    if len(request.starts) > MAX_STARTS or len(request.findings) > MAX_FINDINGS:
        raise InvalidRequest(
            f"{len(request.starts)} starts and {len(request.findings)} findings, more than {MAX_STARTS} and "
            f"{MAX_FINDINGS}; report them in several messages"
        )
    findings = (_finding(each) for each in request.findings)
    return StartsReport(
        process_id=request.process_id,
        service=request.service[:MAX_TEXT] or None,
        starts=[_start(each) for each in request.starts],
        findings=[finding for finding in findings if finding is not None],
        all_open=request.all_open,
    )


def _start(start: pb.SpanStart) -> SpanStart:
    return SpanStart(
        trace_id=trace_id_of(start.trace_id),
        span_id=hex_id("span_id", start.span_id, 16),
        name=start.name[:MAX_TEXT],
        session_id=start.session_id[:MAX_TEXT] or None,
        agent=start.agent[:MAX_TEXT] or None,
        started_at=start.started_at_unix_nano,
    )


def _finding(said: pb.Finding) -> Finding | None:
    """Return the finding; None where its kind or mode is unknown, as a newer client may send one."""
    trace_id = trace_id_of(said.trace_id)
    try:
        metadata = json.loads(said.metadata_json) if said.metadata_json else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"metadata_json is no JSON: {error}") from error
    fields = {name: getattr(said, name) for name in ("kind", "mode", "reason", "agent", "tool")}
    return reported_finding(
        {**fields, "metadata": metadata},
        trace_id=trace_id,
        span_id=hex_id("span_id", said.span_id, 16),
        session_id=said.session_id[:MAX_TEXT] or trace_id,
        found_at=said.found_at_unix_nano,
    )
