"""Evaluation: complete traces go in, committed outcomes and findings come out."""

from agenteval_collector.evaluation.inbox import EvaluationInbox
from agenteval_collector.evaluation.observation import TraceObservation
from agenteval_collector.evaluation.outcomes import TraceOutcomes
from agenteval_collector.evaluation.ports import EarlierTraces, Judging, Reader
from agenteval_collector.evaluation.running import Running
from agenteval_collector.evaluation.stage import EvaluationStage
from agenteval_collector.evaluation.trace_evaluation import TraceEvaluation

__all__ = [
    "EarlierTraces",
    "EvaluationInbox",
    "EvaluationStage",
    "Judging",
    "Reader",
    "Running",
    "TraceEvaluation",
    "TraceObservation",
    "TraceOutcomes",
]
