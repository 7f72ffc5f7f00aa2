"""From complete traces to committed outcomes."""

from agenteval_collector.evaluation.evaluation import Judging, NoJudge, TraceEvaluation
from agenteval_collector.evaluation.stage import EvaluationStage

__all__ = ["EvaluationStage", "Judging", "NoJudge", "TraceEvaluation"]
