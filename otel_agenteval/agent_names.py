"""Read the agent that a span names, in any dialect: the same for whole traces and for single spans.

Most dialects name an agent on the span of its run alone, in an attribute or by the name of the span. Content is
hostile: nothing here raises for it.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from otel_agenteval.recorded import recorded
from otel_agenteval.semconv import GEN_AI_AGENT_NAME

Attributes = Mapping[str, Any]

# On spans of any kind.
_NAMES: Final = (GEN_AI_AGENT_NAME, "agent_name")
# The name that openai-agents-v2 gives as the agent of every span that is not an agent's run.
_NOBODY: Final = "OpenAI Agent"
# Its AGENT spans without an agent's name are those of workflows, which have names of their own.
_NAMES_WORKFLOWS: Final = "openinference.instrumentation.openai_agents"
_INVOKED: Final = "invoke_agent "
_RUN_METHOD: Final = re.compile(r"\.a?(?:run|invoke)\w*$")
# Automatic tracing of a library names its spans after methods: `Agent.run` is nobody's name.
_METHOD: Final = re.compile(r"\w+\.\w+")
# LangChain names the agent in the metadata of what it does, and LangGraph a graph that is none of its agents by its
# root span, the only one outside of any step.
_METADATA: Final = "metadata"
_LANGCHAIN_AGENT: Final = re.compile(r'"lc_agent_name": ?("(?:[^"\\]|\\.)*")')
_GRAPH: Final = '"ls_integration": "langgraph"'
_STEP: Final = '"langgraph_step"'
_UNNAMED_GRAPH: Final = "LangGraph"
# Runs of the first versions of Google ADK have a name and nothing else.
_ADK_RUN: Final = re.compile(r"agent_run \[(.+)\]", re.DOTALL)


def adk_agent(name: str) -> str | None:
    """The agent that the name of a span of Google ADK says the run of; None for the names of all other spans."""
    run = _ADK_RUN.fullmatch(name)
    return run[1] if run else None


def is_run(name: str, attributes: Attributes) -> bool:
    """Whether a span stands for a run of an agent."""
    for runs in _RUNS:
        if isinstance(value := attributes.get(runs.mark), str):
            return value in runs.values
    return "agent_name" in attributes or adk_agent(name) is not None


def agent_of(name: str, attributes: Attributes, scope: str = "") -> str | None:
    """The agent that a span names; None where it names none. `scope` is the span's instrumentation scope."""
    for key in _NAMES:
        if key in attributes and (named := recorded(attributes[key])) is not None:
            return None if named == _NOBODY else named
    for runs in _RUNS:
        if (value := attributes.get(runs.mark)) is not None and isinstance(value, str) and value in runs.values:
            for key in runs.names:
                if (named := recorded(attributes.get(key))) is not None:
                    return named
            if scope != _NAMES_WORKFLOWS and (named := recorded(runs.of_span(name))) is not None:
                return named
    return adk_agent(name) or _langchain_agent(name, attributes.get(_METADATA))


def _langchain_agent(name: str, metadata: Any) -> str | None:
    if not isinstance(metadata, str):
        return None
    if found := _LANGCHAIN_AGENT.search(metadata):
        try:
            return recorded(json.loads(found[1]))
        except ValueError:
            return None
    is_root = _GRAPH in metadata and _STEP not in metadata
    return recorded(name) if is_root and name != _UNNAMED_GRAPH else None


def _whole(name: str) -> str | None:
    return name


def _nobody(name: str) -> str | None:
    return None


def _invoked(name: str) -> str | None:
    return name.removeprefix(_INVOKED) if name.startswith(_INVOKED) else None


def _without_method(name: str) -> str | None:
    return _RUN_METHOD.sub("", name)


def _no_method(name: str) -> str | None:
    return None if _METHOD.fullmatch(name) else name


class _Runs(NamedTuple):
    """The marks of agents' runs in a dialect: an attribute and its values, the attributes that name the agent, and what
    the name of the span says of it."""

    mark: str
    values: frozenset[str]
    names: tuple[str, ...]
    of_span: Callable[[str], str | None]


# Where a span speaks several dialects, the first says what it is, and the first that names its agent is believed.
_RUNS: Final = (
    _Runs("gen_ai.operation.name", frozenset(("invoke_agent",)), (), _invoked),
    _Runs("traceloop.span.kind", frozenset(("agent",)), ("traceloop.entity.name",), _nobody),
    _Runs("openinference.span.kind", frozenset(("AGENT", "agent")), ("agent.name", "graph.node.id"), _without_method),
    _Runs("langfuse.observation.type", frozenset(("agent",)), (), _whole),
    _Runs("mlflow.spanType", frozenset(('"AGENT"',)), (), _no_method),
    _Runs(
        "ai.operationId",
        frozenset(("ai.generateText", "ai.streamText")),
        ("ai.telemetry.functionId", "resource.name"),
        _nobody,
    ),
)
