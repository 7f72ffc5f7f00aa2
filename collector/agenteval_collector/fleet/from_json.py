"""Make findings, evaluations and reports of the JSON objects that `dataclasses.asdict` has made of them."""

from typing import Any

from agenteval_collector.model.evaluations import evaluation_from
from agenteval_collector.model.news import CommittedEvaluation
from agenteval_collector.model.running_traces import SpanStart, StartsReport
from otel_agenteval.finding import Finding, Mode, Severity
from otel_agenteval.outcome import Evaluation, Failure, Outcome, Score, Status, Unscored


def finding_from(document: dict[str, Any]) -> Finding:
    """Return a finding from its fields. Raises KeyError, TypeError or ValueError if they do not fit, as all
    functions here do."""
    mode = document["mode"]
    return Finding(
        **{**document, "severity": Severity(document["severity"]), "mode": None if mode is None else Mode(mode)}
    )


def committed_from(document: dict[str, Any]) -> CommittedEvaluation:
    """Return a committed evaluation from its fields."""
    return CommittedEvaluation(
        evaluation=sent_evaluation(document["evaluation"]), first=document["first"], final=document["final"]
    )


def sent_evaluation(document: dict[str, Any]) -> Evaluation:
    """Return an evaluation from its fields."""
    return evaluation_from(document, _outcome(document["outcome"]))


def _outcome(document: dict[str, Any]) -> Outcome:
    if "value" in document:
        return Score(**document)
    if "error_type" in document:
        return Failure(**document)
    return Unscored(**{**document, "status": Status(document["status"])})


def report_from(document: dict[str, Any]) -> StartsReport:
    """Return a report of open spans from its fields."""
    starts, findings = (
        [SpanStart(**entry) for entry in document["starts"]],
        [finding_from(entry) for entry in document["findings"]],
    )
    return StartsReport(**{**document, "starts": starts, "findings": findings})
