"""Reliability: traces of runs and run reports go in, figures over runs come out."""

from agenteval_collector.reliability.counting import CountedRuns
from agenteval_collector.reliability.regressions import Regressions
from agenteval_collector.reliability.reports import ReliabilityReports
from agenteval_collector.reliability.traces import detectors, sum_up

__all__ = ["CountedRuns", "Regressions", "ReliabilityReports", "detectors", "sum_up"]
