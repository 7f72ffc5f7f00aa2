"""The findings of a trace or a session that are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from otel_agenteval.finding import Finding, Severity

MAX_SHOWN: Final = 100
"""Findings shown of a trace or a session: the worst first, of equal ones the newest."""
MAX_LISTED: Final = 5
"""Findings shown of each session in a listing."""


@dataclass(frozen=True, slots=True)
class ShownFindings:
    """Some findings, the oldest first, and the number of all findings by severity."""

    findings: Sequence[Finding]
    counts: Mapping[Severity, int]
