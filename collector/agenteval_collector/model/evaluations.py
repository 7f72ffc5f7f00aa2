"""Evaluations as they come back from where they were kept or sent."""

from collections.abc import Mapping
from typing import Any

from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Outcome, SubjectKind


def evaluation_from(document: Mapping[str, Any], outcome: Outcome) -> Evaluation:
    """Return the evaluation with these fields, in which texts stand for members of enumerations, and this outcome.

    Raises KeyError, TypeError or ValueError if the fields do not fit.
    """
    members = {
        "method": Method(document["method"]),
        "subject": SubjectKind(document["subject"]),
        "part": None if document["part"] is None else JudgedPart(document["part"]),
    }
    return Evaluation(**{**document, **members, "outcome": outcome})
