"""Read the agent that a span names, in any dialect. Whole traces and single spans are read the same way. Nothing
raises."""

import re
from typing import Final

from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.conventions.dialect import Attributes, SpanRole
from otel_agenteval.conventions.registry import KEYS

# Of several dialects on a span, the first decides whether it is a run, and the first that names an agent is believed.
_RUNS: Final = tuple(
    (kind.key, frozenset(value for value, role in kind.roles.items() if role is SpanRole.AGENT), kind)
    for kind in KEYS.kinds
    if SpanRole.AGENT in kind.roles.values()
)

# Agno makes a new one for each run.
_GENERATED_ID: Final = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")


def is_agent_run(name: str, attributes: Attributes) -> bool:
    """Return whether a span stands for an agent run."""
    for key, runs, _ in _RUNS:
        if isinstance(value := attributes.get(key), str):
            return value in runs
    return any(tells(name, attributes) for tells in KEYS.is_agent_run)


def agent_of(name: str, attributes: Attributes, scope: str = "") -> str | None:
    """Return the agent that a span names; None if it names none. `scope` is its instrumentation scope."""
    for key in KEYS.agents:
        if key in attributes and (named := known_text(attributes[key])) is not None:
            return None if named in KEYS.no_agents else named
    for kind_key, runs, kind in _RUNS:
        if isinstance(value := attributes.get(kind_key), str) and value in runs:
            for key in kind.agents:
                named = known_text(attributes.get(key))
                if named is not None and not _GENERATED_ID.fullmatch(named):
                    return named
            if (named := known_text(kind.agent_in(name, scope))) is not None:
                return named
    for read in KEYS.agent_of:
        if (named := read(name, attributes)) is not None:
            return named
    return None
