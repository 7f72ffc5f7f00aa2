"""Live evaluation of LLM agents on OpenTelemetry: what runs inside an agent.

>>> import otel_agenteval
>>> processor = otel_agenteval.attach()
>>> with otel_agenteval.session("s-42", user_id="u-7"):
...     answer = agent.ask("...")
"""

from otel_agenteval.attachment import attach
from otel_agenteval.context import session
from otel_agenteval.processor import AgentEvalSpanProcessor, Stats
from otel_agenteval.reports import Run, run

__all__ = ["AgentEvalSpanProcessor", "Run", "Stats", "attach", "run", "session"]
