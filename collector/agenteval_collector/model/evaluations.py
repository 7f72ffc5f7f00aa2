"""Evaluations as they come back from where they were kept or sent."""

from collections.abc import Mapping
from typing import Any

from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Outcome, SubjectKind


def evaluation_from(told: Mapping[str, Any], outcome: Outcome) -> Evaluation:
    """Return the evaluation with these fields, in which texts stand for members of enumerations, and this outcome.

    Raises KeyError, TypeError or ValueError where the fields do not fit.
    """
    members = {
        "method": Method(told["method"]),
        "subject": SubjectKind(told["subject"]),
        "part": None if told["part"] is None else JudgedPart(told["part"]),
    }
    return Evaluation(**{**told, **members, "outcome": outcome})
