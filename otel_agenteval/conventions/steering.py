"""Recognise the tools by which a framework steers itself, such as hand-overs and `final_answer`."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from otel_agenteval.conventions.messages import ToolRequest
from otel_agenteval.conventions.registry import KEYS
from otel_agenteval.detectors.tool_names import receiver_in

_ANSWERS = {
    "final_answer": "answer",  # smolagents
    "attempt_completion": "result",  # Cline, Roo Code
}
"""Tools by which a model gives its answer, each with the argument that holds it."""

_HANDS_OVER = frozenset(("handoff",))
"""Tools whose arguments alone name the agent that goes on: that of LlamaIndex's workflows."""


def is_steering(request: ToolRequest, agents: Sequence[str]) -> bool:
    """Return whether a framework steers itself by the call: it hands over to one of `agents`, or gives the answer."""
    name = request.name
    return name in _ANSWERS or name in KEYS.steering_tools or transfer_target(request, agents) is not None


@lru_cache(maxsize=512)
def may_steer(tool: str) -> bool:
    """Return whether a framework may steer itself by a tool of this name, whatever agents there are."""
    return tool in _ANSWERS or tool in KEYS.steering_tools or receiver_in(tool) is not None


def answer_in(requests: Iterable[ToolRequest]) -> str | None:
    """Return the answer that a model gives by calling a tool for it; None if it calls no such tool."""
    for request in requests:
        if isinstance(request.arguments, dict):
            answer = request.arguments.get(_ANSWERS.get(request.name, ""))
            if isinstance(answer, str):
                return answer
    return None


def transfer_target(request: ToolRequest, agents: Iterable[str]) -> str | None:
    """Return the one of `agents` that `request` hands the conversation over to; None if it does not."""
    receiver = receiver_in(request.name)
    if receiver is None and request.name not in _HANDS_OVER:
        return None
    named = {_slug(receiver)} if receiver else set()
    if isinstance(request.arguments, dict):
        named.update(_slug(value) for value in request.arguments.values() if isinstance(value, str))
    return next((agent for agent in agents if _slug(agent) in named), None)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
