"""The evaluators that come with the collector."""

from typing import Final

from agenteval_collector.evaluators.coherence import Coherence
from agenteval_collector.evaluators.loop_detection import LoopDetection
from agenteval_collector.evaluators.port import TraceEvaluator

TRACE_EVALUATORS: Final[tuple[type[TraceEvaluator], ...]] = (Coherence, LoopDetection)

WEIGHTS_WITHOUT_EVIDENCE: Final = {"coherence": 0.0}
"""Weights in session scores that differ from the published ones: the embedded embedder is too rough a judge of
coherence to lower a session's score, unless the settings give it a weight."""
