"""What a detector says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from otel_agenteval.detectors.rules import Kind
from otel_agenteval.finding import Mode
from otel_agenteval.model import Json

EVALUATOR: Final = "loop_detection"
"""The evaluator that loops are told under, whatever their kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop, not yet said of which session; fields as in `Verdict`."""

    kind: Kind
    mode: Mode
    span_id: str
    reason: str
    metadata: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Something is wrong with a session, found while it goes on.

    `name` is the evaluator, `kind` the kind of loop. `span_id` is the span that completed it. `reason` is a sentence
    for people; it quotes no content but names. `metadata` holds what the verdict rests on: `agent`, `tool` or
    `model`, `repetitions`, `span_ids` (the newest, at most 10), and what else belongs to the kind.

    A judged alarm, a judge's score of a trace below its threshold, has no kind (None), and is never more than observed.
    `span_id` is then the span that was judged, `reason` has the judge's explanation, which may quote content, and
    `metadata` the `score` and the `threshold`.
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
        """Whether it may stop the agent."""
        return self.mode is Mode.ALARM
