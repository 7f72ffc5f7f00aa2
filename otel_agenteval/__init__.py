"""Live evaluation of LLM agents on OpenTelemetry: what runs inside an agent.

>>> import otel_agenteval
>>> processor = otel_agenteval.attach()
>>> with otel_agenteval.session("s-42", user_id="u-7"):
...     answer = agent.ask("...")
"""

from otel_agenteval.alarms import current_verdict, raise_if_looping
from otel_agenteval.attachment import attach
from otel_agenteval.context import session
from otel_agenteval.loops.guard import AgentLoopDetected, stop_on_loop
from otel_agenteval.processor import AgentEvalSpanProcessor
from otel_agenteval.run_reports import Run, run
from otel_agenteval.stats import Stats
from otel_agenteval.verdict import Verdict

__all__ = [
    "AgentEvalSpanProcessor",
    "AgentLoopDetected",
    "Run",
    "Stats",
    "Verdict",
    "attach",
    "current_verdict",
    "raise_if_looping",
    "run",
    "session",
    "stop_on_loop",
]
