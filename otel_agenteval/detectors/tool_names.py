"""The meaning of tools' names, by short lists of words. A tool with another name is judged by its results alone."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from otel_agenteval.model import Json

_READS: Final = frozenset(("check", "count", "describe", "fetch", "get", "list", "read", "show", "view"))
_SEARCHES: Final = frozenset(("find", "google", "grep", "look", "lookup", "query", "retrieve", "search"))
_JUDGES: Final = frozenset({
    "ask", "assess", "can", "check", "classify", "compare", "confirm", "detect", "evaluate", "grade", "has", "is",
    "judge", "lint", "moderate", "review", "reviewer", "scan", "score", "test", "validate", "verify",
})  # fmt: skip
_WAITS: Final = frozenset(("delay", "pause", "sleep", "wait"))
_STEPS: Final = frozenset({
    "back", "click", "computer", "draw", "move", "next", "press", "redo", "roll", "scroll", "step",
    "swipe", "tap", "turn", "undo", "walk", "zoom",
})  # fmt: skip

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Separators are whatever is neither a letter nor a digit, as in "Transfer to Writer".
_HANDS_OVER: Final = re.compile(
    r"[\W_]*(?:transfer|hand[\W_]?off|delegate)[\W_]+(?:back[\W_]+)?to[\W_]+(.+)", re.IGNORECASE | re.DOTALL
)
_NOTHING_SAID: Final[tuple[Json, ...]] = (None, "", "{}", "null", {})


class ToolName(NamedTuple):
    """The words of a tool's name, and what they say of the tool."""

    words: tuple[str, ...]
    reads: bool
    """True where the tool tells of something: its result was asked about."""
    searches: bool
    """True where the tool looks for something, and may find nothing."""
    judges: bool
    """True where the tool decides something: its verdict may rightly be the same of many things."""
    waits: bool
    """True where the tool lets time pass."""
    steps: bool
    """True where the tool goes one step on, such as `scroll`: the same step is often made several times."""
    hands_over: bool
    """True where the tool gives the conversation to another agent."""


@lru_cache(maxsize=512)
def tool_name(tool: str) -> ToolName:
    """Read the name of `tool`, written `in_snake_case`, `inCamelCase` or `with-hyphens`."""
    words = tuple(word.lower() for word in _WORDS.findall(tool))
    first = words[:1]
    return ToolName(
        words=words,
        reads=not _READS.isdisjoint(first),
        searches=not _SEARCHES.isdisjoint(words) and _STEPS.isdisjoint(words),
        judges=not _JUDGES.isdisjoint((*first, *words[-1:])),
        waits=not _WAITS.isdisjoint(words),
        steps=not _STEPS.isdisjoint(words),
        hands_over=receiver_in(tool) is not None,
    )


def receiver_in(tool: str) -> str | None:
    """Return the agent that a tool hands the conversation to, as its name says it. None where it hands nothing over."""
    match = _HANDS_OVER.fullmatch(tool)
    return match[1] if match else None


def only_hands_over(tool: str, arguments: Json) -> bool:
    """Return whether the call says nothing but the name of an agent. Such a call is no step."""
    return tool_name(tool).hands_over and arguments in _NOTHING_SAID
