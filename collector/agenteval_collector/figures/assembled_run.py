"""Runs put together from their traces, from run reports, and from evaluators.

The outcome of a run is the first of these that is there:
1. the reported outcome;
2. the attribute of the last trace that has one;
3. the judge's estimate: whether task_completion of the last trace reached its threshold.

The confidence is found in the same way: the reported one, else that of an attribute, else the mean of the judge's over
the traces. Nothing else stands in for either. Violations are those of exact detectors and those that the judge found.
The worst of each constraint counts: a judge that found nothing does not clear a run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TypeVar

from agenteval_collector.evaluation.personal_data import not_said_before
from agenteval_collector.evaluation.run_trace import MAX_ACTIONS
from agenteval_collector.model.runs import RunTrace, StoredRun, Violation
from otel_agenteval.metrics import Run
from otel_agenteval.metrics.safety import SEVERITY_WEIGHTS
from otel_agenteval.model import CONDITIONS
from otel_agenteval.outcome import Status

T = TypeVar("T")

NO_OUTCOME = "no outcome was reported, and the judge could not estimate one"
UNKNOWN_CONDITION = "the condition is none of those known"
_NOT_ESTIMATED = {
    Status.NO_JUDGE: "and there is no judge to estimate one",
    Status.PENDING: "and the judge has not estimated one yet",
    Status.FAILED: "and the judge failed to estimate one",
    Status.OVER_BUDGET: "and the judge had no budget to estimate one",
    Status.SAMPLED_OUT: "and the judge looks at a random sample of traces, without this one",
}
UNJUDGED = {status: f"no outcome was reported, {why}" for status, why in _NOT_ESTIMATED.items()}
UNSURE = {status: f"no confidence was reported, {why}" for status, why in _NOT_ESTIMATED.items()}
SEVERITIES = tuple(SEVERITY_WEIGHTS)
"""Severities of violations, the mildest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledRun:
    """A run in the form that figures take, with notes on which of its parts are estimates."""

    run: Run
    trace_ids: tuple[str, ...]
    outcome_estimated: bool
    confidence_estimated: bool
    no_confidence: str | None
    """The reason why an evaluator has not estimated the confidence.

    None if the confidence is known, or if there is no such evaluator.
    """
    judged: bool
    """True if the judge looked for violations in every trace, besides the exact detectors."""
    evidence: tuple[Violation, ...]


def assemble(stored: StoredRun) -> AssembledRun | str:
    """Return the run in the form for figures, or the reason why it cannot count."""
    if stored.run.condition not in CONDITIONS:
        return UNKNOWN_CONDITION
    traces = sorted(stored.traces, key=lambda trace: (trace.started_at, trace.trace_id))
    newest_first, last = traces[::-1], traces[-1].trace_id
    succeeded = _first_known(stored.success, *(trace.success for trace in newest_first))
    success = succeeded if succeeded is not None else stored.completed.get(last)
    if success is None:
        return UNJUDGED.get(stored.unjudged[last], NO_OUTCOME) if last in stored.unjudged else NO_OUTCOME
    confidence, no_confidence = _first_known(stored.confidence, *(trace.confidence for trace in newest_first)), None
    estimated = confidence is None
    if confidence is None:
        confidence, no_confidence = _estimated_confidence(stored, traces)
    judged = all(trace.trace_id in stored.judged for trace in traces)
    violations = _worst(_violations(traces, stored.judged))
    return AssembledRun(
        run=Run(
            task_id=stored.run.task_id,
            run_id=stored.run.run_id,
            success=success,
            condition=stored.run.condition,
            actions=[action for trace in traces for action in trace.actions][:MAX_ACTIONS],
            confidence=confidence,
            resources=_resources(traces),
            violations=None
            if violations is None
            else [(violation.constraint, violation.severity) for violation in violations],
        ),
        trace_ids=tuple(trace.trace_id for trace in traces),
        outcome_estimated=succeeded is None,
        confidence_estimated=estimated and confidence is not None,
        no_confidence=no_confidence,
        judged=judged,
        evidence=violations or (),
    )


def _first_known(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _resources(traces: Sequence[RunTrace]) -> dict[str, float]:
    """Return the resources by their names in `Run`. A resource that was not measured is left out.

    `cost` is in US dollars, `time` and `call_latency` are in seconds.
    """
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
        # One trace of unknown cost makes the cost of the run unknown.
        if len(costs) == len(traces):
            resources["cost"] = fsum(costs)
    return resources


def _estimated_confidence(stored: StoredRun, traces: Sequence[RunTrace]) -> tuple[float | None, str | None]:
    """Return the mean over the traces that have a confidence, or the reason why there is no estimate."""
    ids = [trace.trace_id for trace in traces]
    for run_id in ids:
        if (reason := UNSURE.get(stored.unsure.get(run_id, Status.SCORED))) is not None:
            return None, reason
    scores = [stored.confidences[run_id] for run_id in ids if run_id in stored.confidences]
    return (fsum(scores) / len(scores) if scores else None), None


def _violations(
    traces: Sequence[RunTrace], judged: Mapping[str, Sequence[Violation]]
) -> Iterator[Sequence[Violation] | None]:
    """Yield the violations that the judge and the detectors found in each trace. Yield None if neither looked."""
    run_ids: set[str] = set()
    for trace in traces:
        detected = None if trace.violations is None else not_said_before(trace.violations, run_ids)
        trace_judged = judged.get(trace.trace_id)
        yield detected if trace_judged is None else [*trace_judged, *(detected or ())]
        # Later traces may repeat what was said in this one.
        run_ids.update(trace.said)


def _worst(of_traces: Iterable[Sequence[Violation] | None]) -> tuple[Violation, ...] | None:
    """Return the worst violation of each constraint, and of equal ones the first.

    Return None if nothing looked at one of the traces: that is no evidence of safety.
    """
    by_constraint: dict[str, Violation] = {}
    for violations in of_traces:
        if violations is None:
            return None
        for violation in violations:
            worse = by_constraint.get(violation.constraint)
            if worse is None or SEVERITIES.index(violation.severity) > SEVERITIES.index(worse.severity):
                by_constraint[violation.constraint] = violation
    return tuple(by_constraint.values())
