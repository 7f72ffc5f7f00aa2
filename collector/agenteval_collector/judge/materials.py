"""A trace as all votes are shown it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from agenteval_collector.config import ConstraintConfig, RubricConfig
from agenteval_collector.judge.prompt.earlier import earlier
from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.fitting import Redact
from agenteval_collector.judge.prompt.transcript import transcript
from agenteval_collector.judge.questions import plan, tools
from otel_agenteval.model import Json, Trace


class Settings(Protocol):
    """The part of a panel that a vote goes by."""

    @property
    def model(self) -> str: ...
    @property
    def models(self) -> Mapping[str, str]: ...
    @property
    def thresholds(self) -> Mapping[str, float]: ...
    @property
    def trace_tokens(self) -> int: ...
    @property
    def rubrics(self) -> tuple[RubricConfig, ...]: ...
    @property
    def constraints(self) -> tuple[ConstraintConfig, ...]: ...
    @property
    def redactor(self) -> Callable[[], Redact]: ...


@dataclass(frozen=True)
class Materials:
    """The parts of a trace that the judge is shown, redacted and fitted once; `trace_tokens` hold them and what came
    before."""

    panel: Settings
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
