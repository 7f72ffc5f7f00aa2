"""The published formulas as pure functions on numbers and texts. The package needs the extra `otel-agenteval[metrics]`.

A metric takes plain values and returns a number or a frozen result. None means "undefined". A metric reads no trace,
asks no model and reads no clock: evaluators do that. The caller gives the embeddings. Bad arguments raise ValueError,
which names the value.
"""

from otel_agenteval.metrics.agreement import AGREEMENT_METRICS, Agreement, Half, LabelledScore, agreement
from otel_agenteval.metrics.chance import low_limit
from otel_agenteval.metrics.coherence import coherence
from otel_agenteval.metrics.comparison import FigureDifference, ReliabilityComparison, compare_reliability
from otel_agenteval.metrics.conversation_correctness import conversation_correctness
from otel_agenteval.metrics.figures import RELIABILITY_METRICS
from otel_agenteval.metrics.loops import LoopText, loop_detection, loop_score
from otel_agenteval.metrics.pass_k import PassKPosterior, pass_at_k, pass_hat_k, pass_k_posterior
from otel_agenteval.metrics.pass_rate import JudgedTrace, PassRate, pass_rate
from otel_agenteval.metrics.regression import as_trial, regression_evidence
from otel_agenteval.metrics.reliability import ReliabilityReport, reliability_report
from otel_agenteval.metrics.result import MetricResult
from otel_agenteval.metrics.runs import RESOURCES, Run
from otel_agenteval.metrics.safety import SEVERITY_WEIGHTS
from otel_agenteval.metrics.session import SavedScores, SessionScores, agent_consistency, agent_reliability
from otel_agenteval.metrics.signals import DEFAULT_WEIGHTS, SIGNAL_NAMES, Signals
from otel_agenteval.metrics.similarity import TokenSets, jaccard_similarity
from otel_agenteval.metrics.tool_use import TOOL_USE_WEIGHTS, ToolUse, tool_use_correctness
from otel_agenteval.metrics.trend import SessionTrend, session_trend
from otel_agenteval.metrics.vectors import Vector
from otel_agenteval.metrics.wilson import Clusters, clustered_interval, difference_interval
from otel_agenteval.model import CONDITIONS

__all__ = [
    "AGREEMENT_METRICS",
    "CONDITIONS",
    "DEFAULT_WEIGHTS",
    "RELIABILITY_METRICS",
    "RESOURCES",
    "SEVERITY_WEIGHTS",
    "SIGNAL_NAMES",
    "TOOL_USE_WEIGHTS",
    "Agreement",
    "Clusters",
    "FigureDifference",
    "Half",
    "JudgedTrace",
    "LabelledScore",
    "LoopText",
    "MetricResult",
    "PassKPosterior",
    "PassRate",
    "ReliabilityComparison",
    "ReliabilityReport",
    "Run",
    "SavedScores",
    "SessionScores",
    "SessionTrend",
    "Signals",
    "TokenSets",
    "ToolUse",
    "Vector",
    "agent_consistency",
    "agent_reliability",
    "agreement",
    "as_trial",
    "clustered_interval",
    "coherence",
    "compare_reliability",
    "conversation_correctness",
    "difference_interval",
    "jaccard_similarity",
    "loop_detection",
    "loop_score",
    "low_limit",
    "pass_at_k",
    "pass_hat_k",
    "pass_k_posterior",
    "pass_rate",
    "regression_evidence",
    "reliability_report",
    "session_trend",
    "tool_use_correctness",
]
