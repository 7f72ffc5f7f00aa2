"""Evaluators: a trace goes in, an outcome comes out. Each is one file and one line in `builtin.py`."""

from agenteval_collector.evaluators.builtin import TRACE_EVALUATORS, TRUTH_EVALUATORS
from agenteval_collector.evaluators.ports import EvaluationContext, TraceEvaluator, comparable, unanswered

__all__ = [
    "TRACE_EVALUATORS",
    "TRUTH_EVALUATORS",
    "EvaluationContext",
    "TraceEvaluator",
    "comparable",
    "unanswered",
]
