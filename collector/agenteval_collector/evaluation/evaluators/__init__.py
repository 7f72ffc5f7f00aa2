"""Evaluators: a trace goes in, an outcome comes out.

Each has one file and one line here; CONTRIBUTING.md lists its settings, its sentence and its docs.
"""

from typing import Final

from agenteval_collector.evaluation.evaluators.answer_correctness import AnswerCorrectness
from agenteval_collector.evaluation.evaluators.coherence import Coherence
from agenteval_collector.evaluation.evaluators.loop_detection import LoopDetection
from agenteval_collector.evaluation.evaluators.ports import EvaluationContext, TraceEvaluator, comparable
from agenteval_collector.evaluation.evaluators.tool_use_correctness import ToolUseCorrectness

TRACE_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (Coherence, LoopDetection)
ALONE: Final[tuple[type[TraceEvaluator], ...]] = (Coherence,)
"""Those of them that look at nothing but the trace, so that its session need not be known."""
TRUTH_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (ToolUseCorrectness, AnswerCorrectness)
"""The evaluators that compare with ground truth. They are asked only about traces that have it."""

__all__ = ["ALONE", "TRACE_EVALUATORS", "TRUTH_EVALUATORS", "EvaluationContext", "TraceEvaluator", "comparable"]
