"""Replacement of secrets and common personal data by placeholders, before content goes anywhere else.

In: a text or JSON. Out: the same with placeholders. Values are found in four ways:

- by their form: the tables `secret_forms` and `personal_forms`;
- by the name beside them: `secret_names` knows the names, `text_names` and `json_names` look for them;
- by an announcement in an earlier text: `announced_secrets`;
- behind an encoding: `encoded`.

`finder` looks for all of these in a text, `redactor` walks through JSON and writes the placeholders.
"""

from otel_agenteval.redaction.finder import OwnPatterns, find
from otel_agenteval.redaction.kinds import DataKind, Match
from otel_agenteval.redaction.redactor import Redactor

__all__ = ["DataKind", "Match", "OwnPatterns", "Redactor", "find"]
