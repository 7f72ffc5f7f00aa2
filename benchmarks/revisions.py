"""CPU of the collector for spans that come after their trace was scored, as a ratio to the first scoring of all of it.

The collector scores a trace of many spans from a plain sender. Then late spans come: first one that says nothing new,
then one that does, and then a burst of many, each in a request of its own.

    python -m benchmarks.revisions [--spans N] [--pieces N] [--rounds N] [--json]
"""

import json
import sqlite3
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.harness import TIMEOUT, Served, arguments, collector, report, send

SPANS_PER_REQUEST = 64
STEP = 1_000_000
"""Nanoseconds between two spans."""


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, spans=1000, pieces=128, rounds=5)
    used: dict[str, list[float]] = {"whole": [], "nothing new": [], "one tool call": [], "burst": []}
    made: list[int] = []
    with collector() as served:
        for number in range(given.rounds + 1):
            trace = Trace(served, number)
            round_used = {
                "whole": trace.add([trace.root(given.spans), *(trace.tool(n) for n in range(given.spans - 1))]),
                "nothing new": trace.add([trace.other()]),
                "one tool call": trace.add([trace.tool(given.spans)]),
            }
            before = trace.revision
            round_used["burst"] = trace.add([trace.other() for _ in range(given.pieces)], spans_per_request=1)
            if number == 0:
                continue  # what starts lazily has warmed up
            made.append(trace.revision - before)
            for name, seconds in round_used.items():
                used[name].append(seconds * 1e3)
    figures = {f"{name}, ms": statistics.median(values) for name, values in used.items()}
    ratios = {f"{name}, ratio": figures[f"{name}, ms"] / figures["whole, ms"] for name in used if name != "whole"}
    report(
        f"CPU of late spans of a trace of {given.spans}",
        {**figures, **ratios, f"revisions by {given.pieces} pieces": statistics.median(made)},
        as_json=given.json,
    )


class Trace:
    """One trace in the collector, and the CPU that the collector has used for it."""

    def __init__(self, served: Served, number: int) -> None:
        self._served = served
        self._ids = Random(number)
        self._id, self._root = self._ids.randbytes(16), self._ids.randbytes(8)
        self._started_at = time.time_ns()
        self._spans = 0
        self.revision = 0

    def add(self, spans: Sequence[Span], spans_per_request: int = SPANS_PER_REQUEST) -> float:
        """Send the spans. Return the CPU seconds until a revision with all of them is stored."""
        before = self._served.cpu_seconds
        firsts = range(0, len(spans), spans_per_request)
        send(self._served.address, [_request(spans[first : first + spans_per_request]) for first in firsts])
        self._spans += len(spans)
        deadline = time.monotonic() + TIMEOUT
        while self._stored() < self._spans:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._stored()} of {self._spans} spans are scored after {TIMEOUT:.0f} s")
            time.sleep(0.05)
        return self._served.cpu_seconds - before

    def root(self, steps: int) -> Span:
        """Return the span of a whole agent run."""
        said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How is the weather?"}]}])
        span = self._span("invoke_agent planner", 0, steps + 2, said)
        span.span_id, span.parent_span_id = self._root, b""
        return span

    def tool(self, number: int) -> Span:
        """Return the span of a tool call that occurs only once."""
        span = self._span("execute_tool search", number + 1, number + 2)
        facts = {
            "operation.name": "execute_tool",
            "tool.name": "search",
            "tool.call.arguments": f'{{"page": {number}}}',
        }
        facts["tool.call.result"] = f"result {number} " + "x" * 1000
        span.attributes.extend(_pair(f"gen_ai.{key}", value) for key, value in facts.items())
        return span

    def other(self) -> Span:
        """Return a span without any GenAI attribute."""
        return self._span("SELECT", 1, 2)

    def _span(self, name: str, start: int, end: int, said: str | None = None) -> Span:
        span = Span(
            trace_id=self._id, span_id=self._ids.randbytes(8), parent_span_id=self._root, flags=0x101, name=name,
            start_time_unix_nano=self._started_at + start * STEP, end_time_unix_nano=self._started_at + end * STEP,
        )  # fmt: skip
        if said is not None:
            facts = {"operation.name": "invoke_agent", "agent.name": "planner", "input.messages": said}
            facts["output.messages"] = said.replace("user", "assistant")
            span.attributes.extend(_pair(f"gen_ai.{key}", value) for key, value in facts.items())
        return span

    def _stored(self) -> int:
        """Return the number of spans of the stored revision, read from the store's file."""
        with closing(sqlite3.connect(f"file:{self._served.data_dir / 'agenteval.db'}?mode=ro", uri=True)) as store:
            query = (
                "SELECT revision, json_extract(json_patch(view, revised), '$.span_count') "
                "FROM traces JOIN trace_views USING (tenant, trace_id) WHERE trace_id = ?"
            )
            self.revision, spans = store.execute(query, (self._id.hex(),)).fetchone() or (0, 0)
        return int(spans)


def _request(spans: Sequence[Span]) -> bytes:
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.append(_pair("service.name", "benchmark"))
    of_resource.scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def _pair(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


if __name__ == "__main__":
    main()
