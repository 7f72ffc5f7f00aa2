"""Live evaluation of LLM agents on OpenTelemetry: the part that runs inside an agent.

>>> import otel_agenteval
>>> processor = otel_agenteval.attach()
>>> with otel_agenteval.session("s-42", user_id="u-7"):
...     answer = agent.ask("...")
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_agenteval.alarms import current_verdict, raise_if_looping
    from otel_agenteval.attachment import attach
    from otel_agenteval.context import session
    from otel_agenteval.loops.guard import AgentLoopDetected, stop_on_loop
    from otel_agenteval.processor import AgentEvalSpanProcessor
    from otel_agenteval.run_reports import RunHandle, run
    from otel_agenteval.stats import Stats
    from otel_agenteval.user_feedback import feedback
    from otel_agenteval.verdict import Verdict

__all__ = [
    "AgentEvalSpanProcessor",
    "AgentLoopDetected",
    "RunHandle",
    "Stats",
    "Verdict",
    "attach",
    "current_verdict",
    "feedback",
    "raise_if_looping",
    "run",
    "session",
    "stop_on_loop",
]

_MODULES = {
    "AgentEvalSpanProcessor": "processor",
    "AgentLoopDetected": "loops.guard",
    "RunHandle": "run_reports",
    "Stats": "stats",
    "Verdict": "verdict",
    "attach": "attachment",
    "current_verdict": "alarms",
    "feedback": "user_feedback",
    "raise_if_looping": "alarms",
    "run": "run_reports",
    "session": "context",
    "stop_on_loop": "loops.guard",
}

# Type checkers know the names from above, and refuse any other.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used, because the command line must not wait for the SDK and gRPC.

        Raises AttributeError for any other name.
        """
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
