"""The published mathematics as pure functions on numbers and texts; needs the extra `otel-agenteval[metrics]`.

A metric takes plain values and returns a `MetricResult`. It reads no trace, asks no model, keeps no time: evaluators
do that. Embeddings are given, not computed. Bad arguments raise ValueError, naming the value.
"""

from otel_agenteval.metrics.coherence import coherence
from otel_agenteval.metrics.incremental import SessionScores
from otel_agenteval.metrics.loops import LoopText, loop_detection, loop_score
from otel_agenteval.metrics.result import MetricResult
from otel_agenteval.metrics.session import agent_consistency, agent_reliability
from otel_agenteval.metrics.signals import DEFAULT_WEIGHTS, SIGNAL_NAMES, Signals
from otel_agenteval.metrics.text import TokenSets, jaccard_similarity
from otel_agenteval.metrics.vectors import Vector

__all__ = [
    "DEFAULT_WEIGHTS",
    "SIGNAL_NAMES",
    "LoopText",
    "MetricResult",
    "SessionScores",
    "Signals",
    "TokenSets",
    "Vector",
    "agent_consistency",
    "agent_reliability",
    "coherence",
    "jaccard_similarity",
    "loop_detection",
    "loop_score",
]
