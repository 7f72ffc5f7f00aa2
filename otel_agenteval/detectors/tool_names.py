"""The meaning of tools' names, by short lists of words. Tools with other names are judged by their results alone."""

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
_THINKS: Final = frozenset(
    ("think", "thinking", "thought", "reflect", "ponder", "reason", "scratchpad", "sequentialthinking")
)
_WAITS: Final = frozenset(("delay", "pause", "sleep", "wait"))
_STEPS: Final = frozenset({
    "back", "click", "computer", "draw", "move", "next", "press", "redo", "roll", "scroll", "step",
    "swipe", "tap", "turn", "undo", "walk", "zoom",
})  # fmt: skip

_NO_LETTERS: Final = re.compile(r"[\W_]+")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Any character that is neither a letter nor a digit separates words, as in "Transfer to Writer".
_HANDS_OVER: Final = re.compile(
    r"[\W_]*(?:transfer|hand[\W_]?off|delegate)[\W_]+(?:back[\W_]+)?to[\W_]+(.+)", re.IGNORECASE | re.DOTALL
)
HANDS_OVER: Final = "handoff to "
"""The beginning of the name of a hand-over that is no tool call."""
_NOTHING_SAID: Final[tuple[Json, ...]] = (None, "", "{}", "null", {})


class ToolName(NamedTuple):
    """The words of a tool's name, and what they say about the tool."""

    words: tuple[str, ...]
    reads: bool
    """True if the tool reads something: its result is the value that was asked for."""
    searches: bool
    """True if the tool looks for something, and may find nothing."""
    judges: bool
    """True if the tool decides something: its verdict may rightly be the same for many things."""
    thinks: bool
    """True if the tool only takes down a thought: it does nothing, so it interrupts nothing."""
    waits: bool
    """True if the tool lets time pass."""
    hands_over: bool
    """True if the tool hands the conversation to another agent."""


@lru_cache(maxsize=512)
def tool_slug(tool: str) -> str:
    """Return what names of one tool share: `Delegate work to coworker` is also `delegate_work_to_coworker`."""
    return _NO_LETTERS.sub("", tool).lower()


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
        thinks=not _THINKS.isdisjoint(first),
        waits=not _WAITS.isdisjoint(words),
        hands_over=receiver_in(tool) is not None,
    )


def receiver_in(tool: str) -> str | None:
    """Return the agent that a tool hands the conversation to, by the tool's name. None if it hands nothing over."""
    match = _HANDS_OVER.fullmatch(tool)
    return match[1] if match else None


def only_hands_over(tool: str, arguments: Json) -> bool:
    """Return whether a call hands over and says nothing more than the agent's name. Such a call is no step."""
    return tool_name(tool).hands_over and arguments in _NOTHING_SAID
