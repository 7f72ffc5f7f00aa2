"""Settings of the embedder and of the evaluators."""

from typing import Literal

from pydantic import ConfigDict, Field

from agenteval_collector.config.values import Section


class EmbedderConfig(Section):
    type: Literal["embedded"] = "embedded"
    """`embedded`: WordLlama's static embeddings, from the installed package; no service."""


class EvaluatorConfig(Section):
    enabled: bool = True
    threshold: float = Field(default=0.5, ge=0, le=1)
    """A score of at least this is a success."""


class EmbeddingConfig(Section):
    """An evaluator that compares texts by their embeddings; its score is a signal of session scores."""

    enabled: bool = True
    threshold: float | None = Field(default=None, ge=0, le=1)
    """A score of at least this is a success; None: a score is neither a success nor a failure."""
    weight: float = Field(default=1.0, ge=0, le=1)
    """In session scores."""


class CoherenceConfig(EmbeddingConfig):
    weight: float = Field(default=0.0, ge=0, le=1)
    """In session scores; 0, because the embedded embedder is too rough to lower a session's score."""


class JudgedConfig(EvaluatorConfig):
    """An evaluator that asks the judge. Without one its outcomes have the status `no_judge`."""

    model: str | None = None
    """The judge's model for this evaluator; None: `judge.model`."""


class ConfidenceConfig(JudgedConfig):
    weight: float = Field(default=1.0, ge=0, le=1)
    """In session scores."""


class ToolCorrectnessConfig(JudgedConfig):
    weight: float = Field(default=0.8, ge=0, le=1)
    """In session scores."""


class ToolUseConfig(EvaluatorConfig):
    threshold: float = Field(default=0.7, ge=0, le=1)
    """A score of at least this is a success."""


class EvaluatorsConfig(Section):
    """By evaluator; further names are those of users' own evaluators, and refused at start where there is none."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, EvaluatorConfig] = Field(init=False)

    task_completion: JudgedConfig = JudgedConfig()
    tool_correctness: ToolCorrectnessConfig = ToolCorrectnessConfig()
    argument_correctness: JudgedConfig = JudgedConfig()
    step_efficiency: JudgedConfig = JudgedConfig()
    confidence: ConfidenceConfig = ConfidenceConfig()
    plan_adherence: JudgedConfig = JudgedConfig()
    plan_quality: JudgedConfig = JudgedConfig()
    coherence: CoherenceConfig = CoherenceConfig()
    loop_detection: EmbeddingConfig = EmbeddingConfig()
    safety: JudgedConfig = JudgedConfig()
    tool_use_correctness: ToolUseConfig = ToolUseConfig()
    goal_success: JudgedConfig = JudgedConfig()
    """Of sessions that are over; no part of session scores."""
    agent_reliability: EvaluatorConfig = EvaluatorConfig()
    agent_consistency: EvaluatorConfig = EvaluatorConfig()
