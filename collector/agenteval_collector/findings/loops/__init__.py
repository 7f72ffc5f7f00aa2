"""Loops of agents: spans go in as they arrive, and complete traces; loops come out, kept and told once."""

from agenteval_collector.findings.loops.live_loops import FoundLive, LiveLoops
from agenteval_collector.findings.loops.open_spans import OpenSpans
from agenteval_collector.findings.loops.stage import Announcer, LoopStage
from agenteval_collector.findings.loops.trace_loops import TraceLoops

__all__ = ["Announcer", "FoundLive", "LiveLoops", "LoopStage", "OpenSpans", "TraceLoops"]
