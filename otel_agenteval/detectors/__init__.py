"""Loop detectors. In: the steps of an agent. Out: loops. Pure, and the same in the agent and in the collector."""

from otel_agenteval.detectors.rules import (
    LOOP_EVALUATOR,
    LOOP_KINDS,
    BudgetRule,
    HungSpanRule,
    LoopKind,
    RepetitionRule,
    RuleBook,
    Rules,
)
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted, steps_of
from otel_agenteval.finding import Mode

__all__ = [
    "LOOP_EVALUATOR",
    "LOOP_KINDS",
    "BudgetRule",
    "Detectors",
    "HungSpanRule",
    "LoopKind",
    "Mode",
    "RepetitionRule",
    "RuleBook",
    "Rules",
    "Step",
    "StepKind",
    "StepStarted",
    "steps_of",
]
