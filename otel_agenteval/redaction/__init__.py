"""Replacement of secrets and common personal data by placeholders, before content goes anywhere else.

In: a text or JSON. Out: the same with placeholders. `rules` and `personal` are the tables of what is found by its form,
`names` and `named` say what is secret because of the name beside it, `encoded` looks behind encodings, `redactor` walks
through JSON.
"""

from otel_agenteval.redaction.encoded import merged
from otel_agenteval.redaction.finder import OwnPatterns, find
from otel_agenteval.redaction.kinds import PERSONAL, SECRETS, DataKind, Match
from otel_agenteval.redaction.redactor import RedactionBudget, Redactor, canonical

__all__ = [
    "PERSONAL",
    "SECRETS",
    "DataKind",
    "Match",
    "OwnPatterns",
    "RedactionBudget",
    "Redactor",
    "canonical",
    "find",
    "merged",
]
