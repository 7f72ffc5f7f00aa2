"""OTLP spans of agents that loop."""

from collections.abc import Sequence
from typing import Any

from agenteval_collector.live.live_loops import FoundLive, LiveLoops
from agenteval_collector.model.logged_requests import Arrival
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding
from tests.support.otlp import START, span

AGENT = "planner"


def tool_span(trace: int, number: int, *, result: str = "nothing found", **attributes: Any) -> Span:
    """The `number`-th call of `search` in a trace, always with the same arguments; each begins after the one before."""
    item = span(
        trace,
        number,
        parent=1,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="search",
        gen_ai__tool__call__arguments='{"query": "weather"}',
        gen_ai__tool__call__result=result,
        gen_ai__agent__name=AGENT,
        **attributes,
    )
    item.start_time_unix_nano = START + number * 1_000_000
    item.end_time_unix_nano = item.start_time_unix_nano + 500_000
    return item


def root_span(trace: int, *, session: str | None = None) -> Span:
    """The agent's run around them, which ends last."""
    said: dict[str, Any] = {} if session is None else {"gen_ai__conversation__id": session}
    item = span(trace, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=AGENT, **said)
    item.end_time_unix_nano = START + 10_000_000_000
    return item


def found_live(detectors: LiveLoops, *arrivals: Sequence[Arrival]) -> list[Finding]:
    """Give these to live detection, one group after the other, and return each loop once."""
    found: dict[tuple[str, str | None], Finding] = {}
    for group in arrivals:
        live = FoundLive()
        detectors.observe(group, live)
        for each in (*live.carried, *live.recounted):
            found.setdefault((each.kind, each.span_id), each)
    return list(found.values())


def loops_in(document: Any) -> list[Any]:
    """The findings of a trace or a session that are loops, as its document has them."""
    return [each for each in document["findings"] if each["kind"] in LOOP_KINDS]
