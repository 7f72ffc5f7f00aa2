"""Make findings, evaluations and reports of the JSON objects that `dataclasses.asdict` has made of them."""

from typing import Any

from agenteval_collector.model.evaluations import evaluation_from
from agenteval_collector.model.news import CommittedEvaluation
from agenteval_collector.model.running_traces import SpanStart, StartsReport
from otel_agenteval.finding import Finding, Mode, Severity
from otel_agenteval.outcome import Evaluation, Failure, Outcome, Score, Status, Unscored


def finding_from(told: dict[str, Any]) -> Finding:
    """Return a finding from its fields. Raises KeyError, TypeError or ValueError where they do not fit, as all
    functions here do."""
    mode = told["mode"]
    return Finding(**{**told, "severity": Severity(told["severity"]), "mode": None if mode is None else Mode(mode)})


def committed_from(told: dict[str, Any]) -> CommittedEvaluation:
    """Return a committed evaluation from its fields."""
    return CommittedEvaluation(evaluation=sent_evaluation(told["evaluation"]), first=told["first"], final=told["final"])


def sent_evaluation(told: dict[str, Any]) -> Evaluation:
    """Return an evaluation from its fields."""
    return evaluation_from(told, _outcome(told["outcome"]))


def _outcome(told: dict[str, Any]) -> Outcome:
    if "value" in told:
        return Score(**told)
    if "error_type" in told:
        return Failure(**told)
    return Unscored(**{**told, "status": Status(told["status"])})


def report_from(told: dict[str, Any]) -> StartsReport:
    """Return a report of open spans from its fields."""
    starts, findings = [SpanStart(**each) for each in told["starts"]], [finding_from(each) for each in told["findings"]]
    return StartsReport(**{**told, "starts": starts, "findings": findings})
