"""Verdicts in a line each."""

from typing import Any

from agenteval_collector.pipeline import FoundVerdict

from otel_agenteval.detectors import Mode, Verdict

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


def found_verdict(*, processes: frozenset[str] = frozenset({"p"}), **changes: Any) -> FoundVerdict:
    """Of the agent `planner` in the service `shop`; `changes` are of its verdict."""
    told = {
        "name": "loop_detection",
        "kind": "identical_call",
        "mode": Mode.ALARM,
        "session_id": "s-1",
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "reason": "search was called 3 times in a row with the same arguments and the same result",
        "metadata": {"tool": "search", "repetitions": 3},
    }
    verdict = Verdict(**{**told, **changes})
    return FoundVerdict(verdict=verdict, agent="planner", service="shop", processes=processes, found_at=1)
