"""Sum up a trace for the run that it belongs to.

A run's actions are its tool calls, in order, whether they failed or not; its errors are the tool and model calls that
failed. A trace that costs nothing to ask about costs 0.0; one model call without usage or price makes its cost unknown.
"""

from collections.abc import Callable, Sequence
from math import fsum

from agenteval_collector.model.runs import RunTrace
from agenteval_collector.reliability.personal_data import exposed_personal_data, said_in
from agenteval_collector.reliability.safety import Detector, violations
from otel_agenteval.model import ModelCall, ToolCall, Trace
from otel_agenteval.text import storable

MAX_ACTIONS = 1000
"""Actions that are kept of a trace and of a run: the first ones. Every pair of runs of a task is compared."""

MAX_NAME = 200
"""Characters of an action's name."""


class RunTraces:
    """Sums up a trace and its session for the run. Returns None for a trace of no run.

    `cost` prices model calls in US dollars, None where it cannot. `detectors` look for violations of constraints.
    """

    def __init__(self, cost: Callable[[Sequence[ModelCall]], float | None], detectors: Sequence[Detector]) -> None:
        self._cost = cost
        self._detectors = detectors

    def __call__(self, trace: Trace, session_id: str) -> RunTrace | None:
        if trace.run is None:
            return None
        return RunTrace(
            trace_id=trace.trace_id,
            session_id=session_id,
            run=trace.run,
            agent=trace.agent,
            service_version=trace.service_version,
            started_at=trace.started_at,
            success=trace.run_outcome.success,
            confidence=trace.run_outcome.confidence,
            actions=tuple(_name(call) for call in trace.tool_calls[:MAX_ACTIONS]),
            seconds=max(0, trace.ended_at - trace.started_at) / 1e9,
            model_calls=len(trace.model_calls),
            model_seconds=fsum(max(0, call.ended_at - call.started_at) / 1e9 for call in trace.model_calls),
            errors=sum(call.error is not None for call in trace.tool_calls)
            + sum(call.error is not None for call in trace.model_calls),
            usd=self._cost(trace.model_calls),
            violations=violations(self._detectors, trace),
            versions=trace.service_versions,
            said=said_in(trace) if exposed_personal_data in self._detectors else (),
        )


def _name(call: ToolCall) -> str:
    return storable(call.name[:MAX_NAME])
