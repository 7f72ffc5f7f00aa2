"""Findings in a line each."""

from typing import Any

from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding, Mode, Severity, severity_of

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


def loop_found(**changes: Any) -> Finding:
    """A loop of the agent `planner` in the service `shop`, but for `changes`."""
    return finding(**{"mode": Mode.ALARM, **changes})


def finding(**changes: Any) -> Finding:
    """A finding of the agent `planner` in the service `shop`, but for `changes`."""
    kind, mode = changes.get("kind", "identical_call"), changes.get("mode")
    severity = severity_of(mode) if kind in LOOP_KINDS and mode is not None else Severity.WARNING
    told = {
        "kind": kind,
        "severity": severity,
        "session_id": "s-1",
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "agent": "planner",
        "tool": "search",
        "service": "shop",
        "service_version": "1.2.0",
        "reason": "search was called at least 3 times in a row with the same arguments and the same result",
        "metadata": {"tool": "search", "repetitions": 3},
        "found_at": 1,
    }
    return Finding(**{**told, **changes})
