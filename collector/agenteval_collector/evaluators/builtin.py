"""The evaluators that come with the collector."""

from typing import Final

from agenteval_collector.evaluators.coherence import Coherence
from agenteval_collector.evaluators.loop_detection import LoopDetection
from agenteval_collector.evaluators.port import TraceEvaluator

TRACE_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (Coherence, LoopDetection)
