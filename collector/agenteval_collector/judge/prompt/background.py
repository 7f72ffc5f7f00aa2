"""Write what every question says about the agent beside its own data: what it was told, could call, and is known to do.

    instructions       what the agent was told by its developer, once
    available_tools    name and description of each tool that the agent could call
    agents             the agents that took part, if there were several
    observations       what telemetry shows for certain: calls that failed, loops, turns without an answer

A part that was not recorded is left out.
"""

from typing import Final

from agenteval_collector.judge.prompt.fitting import Entry, EntryKind, Redact, fit, shorten
from otel_agenteval.model import Json, Trace

LEAST: Final = 100
"""Tokens below which no background is written."""
_MAX_AGENTS: Final = 50
"""The most agents that are named."""


def background(trace: Trace, budget: int, redact: Redact) -> dict[str, Json]:
    """Write the background of `trace` in about `budget` tokens, all of it redacted.

    Instructions get 1/2, tools and observations 1/4 each. With fewer than `LEAST` tokens there is none.
    """
    if budget < LEAST:
        return {}
    shown: dict[str, Json] = {}
    if trace.system_instructions:
        shown["instructions"] = shorten(trace.system_instructions, budget // 2, redact)
    if are_tools_known(trace):
        tools = [_tool(name, text) for name, text in _tools(trace).items()]
        shown["available_tools"] = fit(tools, budget // 4, redact)
    if len(trace.agents) > 1:
        shown["agents"] = [redact(agent) for agent in trace.agents[:_MAX_AGENTS]]
    if observations := _observations(trace):
        shown["observations"] = fit(observations, budget // 4, redact)
    return shown


def are_tools_known(trace: Trace) -> bool:
    """Return True if the available tools were recorded.

    Otherwise they are only the names of the called tools again.
    """
    called = {call.name for call in trace.tool_calls}
    return any(
        tool.name not in called or tool.description is not None or tool.parameters is not None
        for tool in trace.available_tools
    )


def _tools(trace: Trace) -> dict[str, str | None]:
    return {tool.name: tool.description for tool in trace.available_tools}


def _tool(name: str, description: str | None) -> Entry:
    return Entry(kind=EntryKind.TOOL, values={"name": name} | ({"description": description} if description else {}))


def _observations(trace: Trace) -> list[Entry]:
    several = len(trace.turns) > 1
    return [
        Entry(
            kind=EntryKind.OBSERVATION,
            labels={"kind": str(observation.kind)}
            | ({"turn": observation.turn + 1} if several and observation.turn is not None else {}),
            values={"text": observation.reason},
        )
        for observation in trace.observations
    ]
