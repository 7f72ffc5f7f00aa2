"""Names of instrumentation scopes, whose spelling differs between languages and versions."""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

_WORDS: Final = re.compile(r"[^a-z0-9]+")
_OF_AGENTS: Final = frozenset(
    (
        *("agent", "agents", "ai", "genai", "llm", "llms", "openinference", "openlit", "traceloop", "openllmetry"),
        *("langfuse", "langsmith", "litellm", "mlflow", "langchain", "langgraph", "llama", "llamaindex", "haystack"),
        *("crewai", "smolagents", "agno", "dspy", "beeai", "autogen", "ag2", "strands", "mastra", "genkit", "camel"),
        *("openai", "anthropic", "claude", "bedrock", "gemini", "vertex", "vertexai", "mistralai", "cohere", "groq"),
        *("ollama", "copilot", "semantic_kernel", "pydantic_ai"),
    )
)
"""Words in the names of scopes that record agents and calls of models. Codex and opencode are not among them: they
record all that they do inside, down to locks and files."""


@lru_cache(maxsize=4096)
def library_of(scope: str) -> str:
    """Return the library that a scope instruments, in snake case: the last word after a dot, a slash, or
    `instrumentation-`, as in `openinference.instrumentation.openai_agents` and
    `@arizeai/openinference-instrumentation-openai-agents`."""
    return re.split(r"[./]|instrumentation-", scope)[-1].replace("-", "_")


@lru_cache(maxsize=4096)
def records_agents(scope: str) -> bool:
    """Return whether a scope is one of an agent's instrumentation, by the words in its name."""
    name = scope[:200].lower()
    words = _WORDS.split(name)
    return not _OF_AGENTS.isdisjoint((*words, *map("_".join, pairwise(words))))
