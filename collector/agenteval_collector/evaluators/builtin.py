"""The evaluators that come with the collector."""

from collections.abc import Mapping
from typing import Final

from agenteval_collector.evaluators.argument_correctness import ArgumentCorrectness
from agenteval_collector.evaluators.coherence import Coherence
from agenteval_collector.evaluators.confidence import Confidence
from agenteval_collector.evaluators.loop_detection import LoopDetection
from agenteval_collector.evaluators.plan_adherence import PlanAdherence
from agenteval_collector.evaluators.plan_quality import PlanQuality
from agenteval_collector.evaluators.port import TraceEvaluator
from agenteval_collector.evaluators.step_efficiency import StepEfficiency
from agenteval_collector.evaluators.task_completion import TaskCompletion
from agenteval_collector.evaluators.tool_correctness import ToolCorrectness
from agenteval_collector.evaluators.tool_use_correctness import ToolUseCorrectness

TRACE_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (
    Coherence,
    LoopDetection,
    TaskCompletion,
    ToolCorrectness,
    ArgumentCorrectness,
    StepEfficiency,
    Confidence,
    PlanAdherence,
    PlanQuality,
)

TRUTH_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (ToolUseCorrectness,)
"""Those that compare with ground truth, and are asked only about traces that have it."""

EMBEDDED_WEIGHTS: Final[Mapping[str, float]] = {"confidence": 0.0, "tool_correctness": 0.0}
"""In session scores, of the signals that a judge gives where there is one: what they were measured to be worth
without (docs/metrics.md). 0 unless the 95 % interval of that lies above chance."""
