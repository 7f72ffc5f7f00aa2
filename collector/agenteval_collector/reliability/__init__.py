"""Reliability: traces of runs and run reports go in. Figures over runs come out."""

from agenteval_collector.reliability.counting import CountedRuns
from agenteval_collector.reliability.regressions import Regressions
from agenteval_collector.reliability.run_trace import detectors, sum_up
from agenteval_collector.reliability.version_reports import ReliabilityReports

__all__ = ["CountedRuns", "Regressions", "ReliabilityReports", "detectors", "sum_up"]
