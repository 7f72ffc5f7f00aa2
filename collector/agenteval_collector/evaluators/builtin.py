"""The evaluators that come with the collector and need no judge."""

from typing import Final

from agenteval_collector.evaluators.coherence import Coherence
from agenteval_collector.evaluators.loop_detection import LoopDetection
from agenteval_collector.evaluators.ports import TraceEvaluator
from agenteval_collector.evaluators.tool_use_correctness import ToolUseCorrectness

TRACE_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (Coherence, LoopDetection)

TRUTH_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (ToolUseCorrectness,)
"""The evaluators that compare with ground truth. They are asked only about traces that have it."""
