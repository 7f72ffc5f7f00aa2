"""Find the loops of agents.

Spans go in as they arrive, and complete traces follow. Loops come out, each kept and told once.
"""

from agenteval_collector.findings.loops.live_loops import FoundLive, LiveLoops
from agenteval_collector.findings.loops.open_spans import OpenSpans
from agenteval_collector.findings.loops.stage import Announcer, LoopStage
from agenteval_collector.findings.loops.trace_loops import TraceLoops

__all__ = ["Announcer", "FoundLive", "LiveLoops", "LoopStage", "OpenSpans", "TraceLoops"]
