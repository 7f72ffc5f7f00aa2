"""Settings of the loop detectors."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from agenteval_collector.config.values import Seconds, Section, merge
from otel_agenteval.detectors import Mode


def _mode(value: object) -> object:
    """YAML reads `off` as false."""
    return Mode.OFF if value is False else value


class LoopConfig(Section):
    mode: Annotated[Mode, BeforeValidator(_mode)] = Mode.ALARM
    """off: not looked for; observe: stored and shown; alarm: counted in `agenteval.loops`, and may stop an agent."""


class RepetitionConfig(LoopConfig):
    repeats: int = Field(default=3, ge=2, le=1000)
    """The repetition that is told of, the first time counted."""


class NoProgressConfig(RepetitionConfig):
    repeats: int = Field(default=4, ge=2, le=1000)


class HungSpanConfig(LoopConfig):
    after: Seconds = 600.0
    """Seconds that a call may be open with nothing going on inside it."""


class LoopBudgetConfig(LoopConfig):
    """What an agent may use up in one trace; None: no bound."""

    mode: Annotated[Mode, BeforeValidator(_mode)] = Mode.OFF
    steps: int | None = Field(default=None, ge=1)
    """Calls of tools and models."""
    tokens: int | None = Field(default=None, ge=1)
    """Input and output together."""
    seconds: Seconds | None = None
    """Since the agent's first step."""

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.mode is not Mode.OFF and self.steps is None and self.tokens is None and self.seconds is None:
            raise ValueError(f"mode is {self.mode}, but nothing is bounded: give steps, tokens or seconds")
        return self


class DetectorsConfig(Section):
    """The detectors that watch a running trace (docs/loops.md)."""

    identical_call: RepetitionConfig = RepetitionConfig()
    cycle: RepetitionConfig = RepetitionConfig()
    no_progress: NoProgressConfig = NoProgressConfig()
    error_storm: RepetitionConfig = RepetitionConfig()
    repeated_output: RepetitionConfig = RepetitionConfig()
    hung_span: HungSpanConfig = HungSpanConfig()
    budget: LoopBudgetConfig = LoopBudgetConfig()


class LoopsConfig(DetectorsConfig):
    repeated_answer: LoopConfig = LoopConfig()
    """A `loop_detection` score below its threshold."""
    agents: dict[str, DetectorsConfig] = Field(default_factory=dict)
    """What is different for an agent, by its name; the rest is as for all."""

    @model_validator(mode="before")
    @classmethod
    def _complete_agents(cls, values: Any) -> Any:
        agents = values.get("agents") if isinstance(values, Mapping) else None
        if not isinstance(agents, Mapping):
            return values
        common = {kind: values[kind] for kind in DetectorsConfig.model_fields if isinstance(values.get(kind), Mapping)}
        completed = {agent: merge(common, own) if isinstance(own, Mapping) else own for agent, own in agents.items()}
        return {**values, "agents": completed}
