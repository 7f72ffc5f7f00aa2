"""Traces of one simple agent, in any number and order, as export requests for a collector."""

import json
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otel_agenteval import semconv

STEP = 1_000_000
"""Nanoseconds between two spans."""
SPANS_PER_REQUEST = 64
WORDS = ("offer", "price", "hotel", "night", "train", "table", "where", "until")


def trace(
    session_id: str,
    number: int,
    spans: int,
    started_at: int,
    *,
    agent: str = "planner",
    failure: str | None = None,
    result_bytes: int = 300,
) -> list[Span]:
    """Return the trace `number` of a session: an agent run, and behind it its `spans` - 1 tool calls. They fail with
    the text `failure` and the number of the call, or return a text of `result_bytes`."""
    ids = Random(f"{session_id} {number}")
    trace_id, root_id = ids.randbytes(16), ids.randbytes(8)
    said = f"Please look for the offers of day {number} and tell me of the best one."
    answer = f"I looked at {spans} pages for day {number}; number {ids.randrange(1000)} is the best of them."
    described = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
    described |= {"gen_ai.input.messages": _message("user", said)}
    described |= {"gen_ai.output.messages": _message("assistant", answer)}
    made = [_span(trace_id, root_id, b"", f"invoke_agent {agent}", started_at, spans + 1, described)]
    made[0].attributes.append(KeyValue(key=semconv.AGENTEVAL_SPAN_COUNT, value=AnyValue(int_value=spans)))
    for page in range(spans - 1):
        call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
        call |= {"gen_ai.tool.call.arguments": f'{{"day": {number}, "page": {page}}}'}
        if failure is None:
            call |= {"gen_ai.tool.call.result": f"offers of {page}: " + _text(ids, result_bytes)}
        at = started_at + (page + 1) * STEP
        made.append(_span(trace_id, ids.randbytes(8), root_id, "execute_tool search", at, 1, call))
        if failure is not None:
            made[-1].status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=f"{failure} of page {page}"))
    for span in made:
        span.attributes.append(_pair(semconv.AGENTEVAL_SESSION_ID, session_id))
    return made


def requests(traces: Iterable[Sequence[Span]], spans_per_request: int = SPANS_PER_REQUEST) -> Iterator[bytes]:
    """Yield the traces in requests of this many spans. The agent run of each trace comes behind its tool calls."""
    batch: list[Span] = []
    for spans in traces:
        for span in (*spans[1:], spans[0]):
            batch.append(span)
            if len(batch) == spans_per_request:
                yield _request(batch)
                batch = []
    if batch:
        yield _request(batch)


def _request(spans: Sequence[Span]) -> bytes:
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    described = {"service.name": "benchmark", semconv.AGENTEVAL_PROCESS_ID: "benchmark"}
    of_resource.resource.attributes.extend(_pair(*each) for each in described.items())
    of_resource.scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def _span(
    trace_id: bytes, span_id: bytes, parent_id: bytes, name: str, started_at: int, steps: int, facts: dict[str, str]
) -> Span:
    return Span(
        trace_id=trace_id, span_id=span_id, parent_span_id=parent_id, flags=0x101, name=name,
        start_time_unix_nano=started_at, end_time_unix_nano=started_at + steps * STEP,
        attributes=[_pair(*each) for each in facts.items()],
    )  # fmt: skip


def _text(ids: Random, size: int) -> str:
    """Return hex digits up to 300 bytes, else words: a text of a megabyte is a page, no number."""
    if size <= 300:
        return ids.randbytes(size // 2).hex()
    words = [f"{ids.choice(WORDS)} " for _ in range(size // 6)]
    return "".join(words)[:size]


def _message(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


def _pair(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))
