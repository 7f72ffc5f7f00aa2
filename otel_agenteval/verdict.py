"""Verdicts: the form in which the agent's own code gets findings and low scores of a judge."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_agenteval.detectors.rules import LOOP_EVALUATOR, LOOP_KINDS
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Something that is wrong with a session, found while the session goes on.

    `name` is the evaluator: `loop_detection` for loops, the kind itself for other findings. `kind` is the kind of the
    finding. `span_id` is the span that shows it, empty if there is none. `reason` is a sentence for people; that of a
    loop quotes names only, no other content. `metadata` is the evidence: `agent`, `tool` or `model`, `repetitions`,
    `span_ids` (the newest, at most 10), and other values of the kind.

    A judged verdict is a judge's score of a trace below its threshold. It has no kind (None), and its mode is
    `observe`. Its `span_id` is the span that was judged. Its `reason` has the judge's explanation, which may quote
    content. Its `metadata` has the `score` and the `threshold`.
    """

    name: str
    kind: str | None
    mode: Mode
    session_id: str
    trace_id: str
    span_id: str
    reason: str
    metadata: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_alarm(self) -> bool:
        """True if the verdict may stop the agent."""
        return self.mode is Mode.ALARM


def verdict_of(finding: Finding) -> Verdict:
    """Return the verdict for a finding. A finding without a mode counts as observed."""
    return Verdict(
        name=LOOP_EVALUATOR if finding.kind in LOOP_KINDS else finding.kind,
        kind=finding.kind,
        mode=finding.mode or Mode.OBSERVE,
        session_id=finding.session_id,
        trace_id=finding.trace_id,
        span_id=finding.span_id or "",
        reason=finding.reason,
        metadata=finding.metadata if finding.agent is None else {"agent": finding.agent, **finding.metadata},
    )
