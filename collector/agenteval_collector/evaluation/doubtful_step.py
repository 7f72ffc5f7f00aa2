"""Find the reply of a trace of several agents that states figures of its own: no user, instruction, tool or agent said
them before.

Only agents count that have calls of tools in the trace: what others read, nobody recorded. The reply may be right, so
it is no finding. It is where to look first if the session is known to have failed.
"""

import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from agenteval_collector.evaluation.findings.grounding import SaidValues
from agenteval_collector.model.trace_view import DoubtfulStep
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Json, ModelCall, ToolCall, Trace, Turn

LEAST_FIGURES: Final = 2
"""Unsaid figures that put a reply in doubt. A single one may be counted or computed."""
MAX_FIGURES: Final = 200
"""Figures of a reply that are looked up."""
MAX_WHAT: Final = 300
"""Characters of what is said of the reply."""
_NAMED: Final = 3
"""The most figures that are named."""
_FIGURE: Final = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w]|[.,]\d)")


def doubtful_step(trace: Trace) -> DoubtfulStep | None:
    """Return the first such reply; None if there is none, or if the trace has a single agent."""
    if len(trace.agents) < 2:
        return None
    recorded = {call.agent for call in trace.tool_calls}
    said = SaidValues()
    for text in (trace.system_instructions or "", *trace.history):
        said.add(_text(text))
    for number, turn in enumerate(trace.turns):
        said.add(turn.input or "")
        calls = 0
        for step in _steps(turn):
            if isinstance(step, ToolCall):
                said.add(_text(step.result if step.result is not None else ""))
                calls += 1
                continue
            output = step.output or ""
            if step.agent in recorded and (figures := _unsaid(said, output)):
                what = cut(f"states {_listed(figures)}, which nobody said before", MAX_WHAT)
                agent = step.agent or turn.agent
                return DoubtfulStep(span_id=step.span_id, turn=number, calls_before=calls, agent=agent, what=what)
            said.add(output)
    return None


def _steps(turn: Turn) -> Iterator[ModelCall | ToolCall]:
    """Yield the replies and the calls of tools in the order of their ends."""
    at, timed = turn.started_at, list[tuple[int, ModelCall | ToolCall]]()
    for call in turn.tool_calls:
        at = call.ended_at if call.ended_at is not None else at
        timed.append((at, call))
    timed += [(reply.ended_at, reply) for reply in turn.model_calls]
    yield from map(itemgetter(1), sorted(timed, key=itemgetter(0)))


def _unsaid(said: SaidValues, text: str) -> list[str]:
    figures = dict.fromkeys(match[0] for match in _FIGURE.finditer(text))
    unsaid = [figure for figure in [*figures][:MAX_FIGURES] if said.lacks(_number(figure))]
    return unsaid if len(unsaid) >= LEAST_FIGURES else []


def _number(figure: str) -> int | float:
    plain = figure.replace(",", "")
    return float(plain) if "." in plain else int(plain[:300])


def _listed(figures: list[str]) -> str:
    shown = ", ".join(figures[:_NAMED])
    return f"{shown} and {len(figures) - _NAMED} more figures" if len(figures) > _NAMED else shown


def _text(value: Json) -> str:
    return value if isinstance(value, str) else repr(value)
