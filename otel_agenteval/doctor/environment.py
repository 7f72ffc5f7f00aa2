"""Checks of the environment that the doctor runs in: versions, OpenTelemetry's switches, instrumentations."""

import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Final

from otel_agenteval.doctor.checks import Check, ok, warning

_RECORDING: Final = (
    "openinference-instrumentation-",
    "opentelemetry-instrumentation-genai-",
    "opentelemetry-instrumentation-google-genai",
    "opentelemetry-instrumentation-openai",
    "opentelemetry-instrumentation-anthropic",
    "opentelemetry-instrumentation-langchain",
    "opentelemetry-instrumentation-llamaindex",
    "opentelemetry-instrumentation-bedrock",
    "opentelemetry-instrumentation-crewai",
    "opentelemetry-instrumentation-mcp",
    "traceloop-sdk",
    "openlit",
    "logfire",
    "langfuse",
    "mlflow",
    "langsmith",
)
"""How the names of distributions begin that record GenAI spans of others."""
_BUILT_IN: Final = ("pydantic-ai", "google-adk", "strands-agents", "litellm", "autogen-core")
"""How the names of frameworks begin that record themselves, or bring what records them."""
_SUGGESTED: Final = {
    "anthropic": "openinference-instrumentation-anthropic",
    "langchain-core": "openinference-instrumentation-langchain",
    "llama-index-core": "openinference-instrumentation-llama-index",
    "openai-agents": "openinference-instrumentation-openai-agents",
    "crewai": "openinference-instrumentation-crewai",
    "google-genai": "openinference-instrumentation-google-genai",
    "dspy": "openinference-instrumentation-dspy",
    "smolagents": "openinference-instrumentation-smolagents",
    "agno": "openinference-instrumentation-agno",
    "haystack-ai": "openinference-instrumentation-haystack",
    "openai": "openinference-instrumentation-openai",
}
"""An instrumentation for each library that has none of its own; frameworks before the clients that they use."""
_OF_THE_COLLECTOR: Final = "wordllama"
"""A package that the collector brings, as it does `openai`, which then says nothing of an agent."""
_SHOWN: Final = 8
_ALL_SPANS: Final = ("", "always_on", "parentbased_always_on")


def installed() -> dict[str, str]:
    """Return the version of each distribution that this Python can import, by name in lower case."""
    return {
        name.lower().replace("_", "-"): each.version for each in metadata.distributions() if (name := each.name or "")
    }


def about_environment(environ: Mapping[str, str], versions: Mapping[str, str]) -> Iterator[Check]:
    """Check this environment: its versions, what OpenTelemetry is told in it, and what records the agent."""
    sdk = versions.get("opentelemetry-sdk", "none")
    ours = versions.get("otel-agenteval", "unknown")
    yield ok("client", f"otel-agenteval {ours}, Python {platform.python_version()}, opentelemetry-sdk {sdk}")
    yield from _about_switches(environ)
    yield _about_instrumentations(versions)


def _about_switches(environ: Mapping[str, str]) -> Iterator[Check]:
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield warning("sdk", "OTEL_SDK_DISABLED=true: no span is recorded in this environment", "unset it")
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if sampler not in _ALL_SPANS:
        yield warning(
            "sampling",
            f"OTEL_TRACES_SAMPLER={sampler}: traces that are not sampled are never seen",
            "unset it, or set parentbased_always_on",
        )


def _about_instrumentations(versions: Mapping[str, str]) -> Check:
    found = sorted(name for name in versions if name.startswith(_RECORDING + _BUILT_IN))
    if found:
        names = [f"{name} {versions[name]}" for name in found[:_SHOWN]]
        return ok("instrumentation", ", ".join(names) + (", ..." if len(found) > _SHOWN else ""))
    missing = f"no package in {sys.prefix} records GenAI spans"
    if suggested := _suggested(versions):
        library, instrumentation = suggested
        return warning(
            "instrumentation",
            f"{missing}; {library} is there",
            f"in the agent's environment: pip install {instrumentation}",
        )
    return warning(
        "instrumentation",
        missing,
        "run `agenteval doctor` in the agent's environment, or install an instrumentation: docs/instrumentations.md",
    )


def _suggested(versions: Iterable[str]) -> tuple[str, str] | None:
    there = set(versions)
    if _OF_THE_COLLECTOR in there:
        there.discard("openai")
    return next(((library, name) for library, name in _SUGGESTED.items() if library in there), None)
