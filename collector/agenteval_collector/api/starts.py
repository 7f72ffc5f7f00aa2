"""What a process reports of what runs in it, off the wire: checked, cut, and nothing of it believed."""

import json
import re

from agenteval_collector.errors import InvalidRequest
from agenteval_collector.pipeline import SpanStart, StartsReport
from agenteval_collector.reported import verdict_of
from otel_agenteval.detectors import Verdict
from otel_agenteval.proto.v1 import evaluation_pb2 as pb

MAX_STARTS = 10_000
"""Starts in one report; our processor sends far fewer."""
MAX_VERDICTS = 1000
MAX_TEXT = 1024
"""Characters of an id or a name that are kept."""

_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_HEX = re.compile(r"[0-9a-fA-F]+")


def starts_report(request: pb.ReportStartsRequest) -> StartsReport:
    """The report. Raises InvalidRequest naming what cannot be taken."""
    if not request.process_id or len(request.process_id) > MAX_TEXT:
        raise InvalidRequest(f"process_id has {len(request.process_id)} characters, not 1 to {MAX_TEXT}")
    if len(request.starts) > MAX_STARTS or len(request.verdicts) > MAX_VERDICTS:
        raise InvalidRequest(
            f"{len(request.starts)} starts and {len(request.verdicts)} verdicts, more than {MAX_STARTS} and "
            f"{MAX_VERDICTS}; report them in several messages"
        )
    verdicts = (_verdict(each) for each in request.verdicts)
    return StartsReport(
        process_id=request.process_id,
        service=request.service[:MAX_TEXT] or None,
        starts=[_start(each) for each in request.starts],
        verdicts=[verdict for verdict in verdicts if verdict is not None],
        all_open=request.all_open,
    )


def _start(start: pb.SpanStart) -> SpanStart:
    return SpanStart(
        trace_id=_hex("trace_id", start.trace_id, _TRACE_DIGITS),
        span_id=_hex("span_id", start.span_id, _SPAN_DIGITS),
        name=start.name[:MAX_TEXT],
        session_id=start.session_id[:MAX_TEXT] or None,
        agent=start.agent[:MAX_TEXT] or None,
        started_at=start.started_at_unix_nano,
    )


def _verdict(verdict: pb.Verdict) -> Verdict | None:
    """The verdict; None for a kind or a mode that is none here, as a newer client may have."""
    trace_id = _hex("trace_id", verdict.trace_id, _TRACE_DIGITS)
    try:
        metadata = json.loads(verdict.metadata_json) if verdict.metadata_json else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"metadata_json is no JSON: {error}") from error
    said = {"name": verdict.name, "kind": verdict.kind, "mode": verdict.mode, "reason": verdict.reason}
    return verdict_of(
        {**said, "metadata": metadata},
        trace_id=trace_id,
        span_id=_hex("span_id", verdict.span_id, _SPAN_DIGITS),
        session_id=verdict.session_id[:MAX_TEXT] or trace_id,
    )


def _hex(field: str, text: str, digits: int) -> str:
    if len(text) != digits or not _HEX.fullmatch(text):
        raise InvalidRequest(f"{field} is {text[:64]!r}, not {digits} hexadecimal digits")
    return text.lower()
