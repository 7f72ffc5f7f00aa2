"""Evaluation: complete traces go in, committed outcomes and findings come out."""

from agenteval_collector.evaluation.every_session import EverySession
from agenteval_collector.evaluation.inbox import EvaluationInbox
from agenteval_collector.evaluation.observation import TraceObservation
from agenteval_collector.evaluation.outcomes import TraceOutcomes
from agenteval_collector.evaluation.ports import EarlierTraces, Judging, OwnSessions, Reader
from agenteval_collector.evaluation.running_traces import RunningTraceReader
from agenteval_collector.evaluation.session_key import SessionKey
from agenteval_collector.evaluation.stage import EvaluationStage
from agenteval_collector.evaluation.trace_evaluation import TraceEvaluation

__all__ = [
    "EarlierTraces",
    "EvaluationInbox",
    "EvaluationStage",
    "EverySession",
    "Judging",
    "OwnSessions",
    "Reader",
    "RunningTraceReader",
    "SessionKey",
    "TraceEvaluation",
    "TraceObservation",
    "TraceOutcomes",
]
