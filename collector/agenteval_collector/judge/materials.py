"""Prepare the parts of a trace that all votes are shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agenteval_collector.config import ConstraintConfig, RubricConfig
from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.fitting import Redact
from agenteval_collector.judge.prompt.transcript import earlier, transcript
from agenteval_collector.judge.questions import plan, tools
from otel_agenteval.model import Json, Trace


@dataclass(frozen=True, kw_only=True)
class PanelSettings:
    """The settings that a vote goes by: models, thresholds, rubrics, constraints.

    `models` and `thresholds` are by evaluator, rubrics among them; `model` does the extraction, and judges where
    `models` names no other. `redactor` makes a redaction for one trace, in which equal values stay recognisable.
    """

    model: str
    models: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, float]
    trace_tokens: int
    rubrics: tuple[RubricConfig, ...] = ()
    constraints: tuple[ConstraintConfig, ...] = ()
    redactor: Callable[[], Redact]


@dataclass(frozen=True)
class Materials:
    """The parts of a trace that the judge is shown, redacted and fitted once; `trace_tokens` hold them and what came
    before."""

    panel: PanelSettings
    trace: Trace

    @cached_property
    def redact(self) -> Redact:
        return self.panel.redactor()

    @cached_property
    def earlier(self) -> list[Json]:
        return earlier(self.trace, self.panel.trace_tokens // 3, self.redact)

    @property
    def room(self) -> int:
        """The tokens that are left for the trace itself."""
        return self.panel.trace_tokens - (tokens(encode(self.earlier)) if self.earlier else 0)

    @cached_property
    def transcript(self) -> list[Json]:
        return transcript(self.trace, self.room, self.redact)

    @cached_property
    def tool_use(self) -> tools.ToolUse:
        return tools.tool_use(self.trace, self.room, self.redact)

    @cached_property
    def planned(self) -> list[str]:
        """The recorded plan."""
        return plan.recorded_plan(self.trace, self.room // 4, self.redact)
