"""The values of a trace that were recorded and that the judge is shown, each to be changed in its place."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from otel_agenteval.model import Json, ModelCall, Tool, ToolCall, Trace, Turn

Part = TypeVar("Part", Tool, ToolCall, ModelCall, Turn)

RECORDED: Final[Mapping[type, tuple[str, ...]]] = {
    Tool: ("name", "description", "parameters"),
    ToolCall: ("name", "arguments", "result", "error"),
    ModelCall: ("output", "error"),
    Turn: ("input", "output", "error"),
}
"""The fields that hold one value, in the order in which the judge is shown them."""


def mapped(trace: Trace, change: Callable[[Json], Any]) -> Trace:
    """Return `trace`, and what came before it, with every recorded value changed; what was not recorded stays None."""
    return replace(
        trace,
        earlier=tuple(_turn(turn, change) for turn in trace.earlier),
        history=tuple(change(value) for value in trace.history),
        system_instructions=None if trace.system_instructions is None else change(trace.system_instructions),
        turns=tuple(_turn(turn, change) for turn in trace.turns),
        available_tools=tuple(_part(tool, change) for tool in trace.available_tools),
    )


def _part(part: Part, change: Callable[[Json], Any]) -> Part:
    values = {name: getattr(part, name) for name in RECORDED[type(part)]}
    return replace(part, **{name: change(value) for name, value in values.items() if value is not None})


def _turn(turn: Turn, change: Callable[[Json], Any]) -> Turn:
    return replace(
        _part(turn, change),
        reasoning=tuple(change(text) for text in turn.reasoning),
        plan=tuple(change(text) for text in turn.plan),
        model_calls=tuple(_part(call, change) for call in turn.model_calls),
        tool_calls=tuple(_part(call, change) for call in turn.tool_calls),
    )
