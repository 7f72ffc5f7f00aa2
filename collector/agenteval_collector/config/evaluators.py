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


class CoherenceConfig(EvaluatorConfig):
    weight: float = Field(default=0.0, ge=0, le=1)
    """In session scores; 0, because the embedded embedder is too rough a judge to lower a session's score."""


class LoopDetectionConfig(EvaluatorConfig):
    weight: float = Field(default=1.0, ge=0, le=1)
    """In session scores."""


class JudgedConfig(EvaluatorConfig):
    """An evaluator that asks the judge where there is one, and makes do with exact checks and heuristics elsewhere."""

    model: str | None = None
    """The judge's model for this evaluator; None: `judge.model`."""


class JudgedSignalConfig(JudgedConfig):
    """One whose score is also a signal of session scores."""

    weight: float | None = Field(default=None, ge=0, le=1)
    """In session scores. None: the published weight where the judge scores, else what the embedded evaluator was
    measured to be worth (docs/metrics.md)."""


class EvaluatorsConfig(Section):
    """By evaluator; further names are those of users' own evaluators, and refused at start where there is none."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, EvaluatorConfig] = Field(init=False)

    task_completion: JudgedConfig = JudgedConfig()
    tool_correctness: JudgedSignalConfig = JudgedSignalConfig()
    argument_correctness: JudgedConfig = JudgedConfig()
    step_efficiency: JudgedConfig = JudgedConfig()
    confidence: JudgedSignalConfig = JudgedSignalConfig()
    plan_adherence: JudgedConfig = JudgedConfig()
    plan_quality: JudgedConfig = JudgedConfig()
    coherence: CoherenceConfig = CoherenceConfig()
    loop_detection: LoopDetectionConfig = LoopDetectionConfig()
    safety: JudgedConfig = JudgedConfig()
    tool_use_correctness: EvaluatorConfig = EvaluatorConfig(threshold=0.7)
    agent_reliability: EvaluatorConfig = EvaluatorConfig()
    agent_consistency: EvaluatorConfig = EvaluatorConfig()
