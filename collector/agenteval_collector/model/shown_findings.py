"""The findings of a trace or a session, as far as they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from otel_agenteval.finding import Finding, Severity

MAX_SHOWN: Final = 100
"""Findings of a trace or a session that are shown: the worst, of those the newest."""
MAX_LISTED: Final = 5
"""Those of each session of a listing."""


@dataclass(frozen=True, slots=True)
class ShownFindings:
    """Some findings by time, the oldest first, and how many there are of each severity."""

    findings: Sequence[Finding]
    counts: Mapping[Severity, int]
