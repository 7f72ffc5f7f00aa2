"""From complete traces to committed outcomes."""

from agenteval_collector.evaluation.evaluation import TraceEvaluation
from agenteval_collector.evaluation.observation import TraceObservation
from agenteval_collector.evaluation.outcomes import Judging, TraceOutcomes
from agenteval_collector.evaluation.stage import EvaluationStage

__all__ = ["EvaluationStage", "Judging", "TraceEvaluation", "TraceObservation", "TraceOutcomes"]
