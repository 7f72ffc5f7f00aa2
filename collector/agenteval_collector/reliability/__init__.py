"""From traces of runs to figures over runs: what each trace adds, runs put together, reports kept current."""

from agenteval_collector.reliability.reports import ReliabilityReports
from agenteval_collector.reliability.traces import RunTraces

__all__ = ["ReliabilityReports", "RunTraces"]
