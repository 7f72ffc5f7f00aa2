"""Evaluators: they turn traces into outcomes. One file each, one line in `builtin.py`."""

from agenteval_collector.evaluators.builtin import TRACE_EVALUATORS, TRUTH_EVALUATORS
from agenteval_collector.evaluators.port import EvaluationContext, TraceEvaluator, comparable, unanswered

__all__ = [
    "TRACE_EVALUATORS",
    "TRUTH_EVALUATORS",
    "EvaluationContext",
    "TraceEvaluator",
    "comparable",
    "unanswered",
]
