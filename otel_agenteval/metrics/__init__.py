"""The published formulas as pure functions on numbers and texts. The package needs the extra `otel-agenteval[metrics]`.

A metric takes plain values and returns a number or a frozen result. None means "undefined". A metric reads no trace,
asks no model and reads no clock: evaluators do that. The caller gives the embeddings. Bad arguments raise ValueError,
which names the value.
"""

from otel_agenteval.metrics.answer import answer_correctness
from otel_agenteval.metrics.coherence import coherence
from otel_agenteval.metrics.comparison import FigureDifference, ReliabilityComparison, compare_reliability
from otel_agenteval.metrics.conversation_correctness import conversation_correctness
from otel_agenteval.metrics.figures import RELIABILITY_METRICS
from otel_agenteval.metrics.loops import loop_detection
from otel_agenteval.metrics.pass_k import PassKPosterior, pass_at_k, pass_hat_k, pass_k_posterior
from otel_agenteval.metrics.reliability import ReliabilityReport, reliability_report
from otel_agenteval.metrics.result import MetricResult
from otel_agenteval.metrics.runs import RESOURCES, Run
from otel_agenteval.metrics.safety import SEVERITY_WEIGHTS
from otel_agenteval.metrics.session import agent_consistency, agent_reliability
from otel_agenteval.metrics.signals import DEFAULT_WEIGHTS
from otel_agenteval.metrics.similarity import jaccard_similarity
from otel_agenteval.metrics.tool_use import TOOL_USE_WEIGHTS, ToolUse, tool_use_correctness
from otel_agenteval.metrics.trend import SessionTrend, session_trend

__all__ = [
    "DEFAULT_WEIGHTS",
    "RELIABILITY_METRICS",
    "RESOURCES",
    "SEVERITY_WEIGHTS",
    "TOOL_USE_WEIGHTS",
    "FigureDifference",
    "MetricResult",
    "PassKPosterior",
    "ReliabilityComparison",
    "ReliabilityReport",
    "Run",
    "SessionTrend",
    "ToolUse",
    "agent_consistency",
    "agent_reliability",
    "answer_correctness",
    "coherence",
    "compare_reliability",
    "conversation_correctness",
    "jaccard_similarity",
    "loop_detection",
    "pass_at_k",
    "pass_hat_k",
    "pass_k_posterior",
    "reliability_report",
    "session_trend",
    "tool_use_correctness",
]
