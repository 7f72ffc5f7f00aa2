"""Runs put together from their traces, from what was reported of them, and from what evaluators say.

The outcome of a run is what was reported of it; else what an attribute says, of its last trace that has one; else it
is estimated: whether task_completion of its last trace reached its threshold. Its confidence, the same way, is the
reported one, an attribute's, or the mean of the evaluator's over its traces. Nothing else stands in for either.
Violations are those that the judge found, where it looked at every trace of the run, else those of exact detectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from agenteval_collector.records import RunTrace, StoredRun, Violation
from agenteval_collector.reliability.traces import MAX_ACTIONS
from otel_agenteval.metrics import CONDITIONS, Run

NO_OUTCOME = "no outcome was reported, and no judge or heuristic could estimate one"
UNKNOWN_CONDITION = "the condition is none of those known"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledRun:
    """A run as figures take it, and what in it is estimated rather than said."""

    run: Run
    trace_ids: tuple[str, ...]
    outcome_estimated: bool
    confidence_estimated: bool
    judged: bool
    """Whether violations are the judge's, and not those of exact detectors."""
    evidence: tuple[Violation, ...]


def assemble(stored: StoredRun) -> AssembledRun | str:
    """The run, or why it cannot count."""
    if stored.run.condition not in CONDITIONS:
        return UNKNOWN_CONDITION
    traces = sorted(stored.traces, key=lambda trace: (trace.started_at, trace.trace_id))
    said = _said(stored, traces)
    success = said if said is not None else stored.completed.get(traces[-1].trace_id)
    if success is None:
        return NO_OUTCOME
    confidence = _confidence_said(stored, traces)
    estimated = confidence is None and bool(stored.confidences)
    if estimated:
        scores = [stored.confidences[each.trace_id] for each in traces if each.trace_id in stored.confidences]
        confidence = fsum(scores) / len(scores)
    judged = all(trace.trace_id in stored.judged for trace in traces)
    found = _distinct([stored.judged[trace.trace_id] if judged else trace.violations for trace in traces])
    return AssembledRun(
        run=Run(
            task_id=stored.run.task_id,
            run_id=stored.run.run_id,
            success=success,
            condition=stored.run.condition,
            actions=[action for trace in traces for action in trace.actions][:MAX_ACTIONS],
            confidence=confidence,
            resources=_resources(traces),
            violations=None if found is None else [(each.constraint, each.severity) for each in found],
        ),
        trace_ids=tuple(trace.trace_id for trace in traces),
        outcome_estimated=said is None,
        confidence_estimated=estimated,
        judged=judged,
        evidence=found or (),
    )


def _said(stored: StoredRun, traces: Sequence[RunTrace]) -> bool | None:
    if stored.success is not None:
        return stored.success
    return next((each.success for each in reversed(traces) if each.success is not None), None)


def _confidence_said(stored: StoredRun, traces: Sequence[RunTrace]) -> float | None:
    if stored.confidence is not None:
        return stored.confidence
    return next((each.confidence for each in reversed(traces) if each.confidence is not None), None)


def _resources(traces: Sequence[RunTrace]) -> dict[str, float]:
    """By the names of `Run`: cost in US dollars, time and call_latency in seconds; what was not measured is absent."""
    calls = sum(trace.model_calls for trace in traces)
    resources = {
        "time": fsum(trace.seconds for trace in traces),
        "api_calls": float(calls),
        "num_actions": float(sum(len(trace.actions) for trace in traces)),
        "num_errors": float(sum(trace.errors for trace in traces)),
    }
    if calls:
        resources["call_latency"] = fsum(trace.model_seconds for trace in traces) / calls
        costs = [trace.usd for trace in traces if trace.usd is not None]
        if len(costs) == len(traces):
            resources["cost"] = fsum(costs)
    return resources


def _distinct(of_traces: Sequence[Sequence[Violation] | None]) -> tuple[Violation, ...] | None:
    """Each different violation once; None where a trace was not looked at."""
    found: dict[Violation, None] = {}
    for violations in of_traces:
        if violations is None:
            return None
        found |= dict.fromkeys(violations)
    return tuple(found)
