"""What the name of a tool says that it does."""

import re
from typing import Final

from otel_agenteval.model import Json

# Who tells of something does nothing to it: what is said describes what was asked about.
_READS: Final = frozenset(("check", "count", "describe", "fetch", "get", "list", "read", "show", "view"))
# Who searches asks the same with other words: what such a tool says is an answer in any language.
_SEARCHES: Final = frozenset(("find", "google", "grep", "look", "lookup", "retrieve", "search"))
# Who judges says the same of many things, and rightly.
_JUDGES: Final = frozenset({
    "ask", "assess", "can", "check", "classify", "compare", "confirm", "contains", "detect", "does", "evaluate",
    "exists", "flag", "grade", "has", "identify", "is", "judge", "lint", "moderate", "monitor", "predict", "rate",
    "recognize", "review", "scan", "score", "test", "triage", "validate", "verify",
})  # fmt: skip
# A value may rightly be the same for many: four cities are sunny.
_MEASURES: Final = ("calc", "comput", "convert", "count", "get", "measure", "sum")
ACTS: Final = frozenset({
    "activate", "add", "append", "apply", "approve", "archive", "assign", "block", "book", "cancel", "change", "clear",
    "click", "close", "commit", "complete", "copy", "create", "deactivate", "decline", "delete", "deny", "deploy",
    "disable", "drag", "edit", "email", "enable", "enqueue", "fill", "finish", "goto", "grant", "hover", "import",
    "insert", "invite", "kill", "lock", "log", "login", "mark", "merge", "move", "mute", "navigate", "notify", "pay",
    "post", "press", "publish", "push", "put", "record", "refund", "register", "reject", "release", "remove", "rename",
    "replace", "reply", "reserve", "reset", "restart", "revoke", "save", "schedule", "screenshot", "scroll", "send",
    "set", "skip", "sleep", "start", "stop", "store", "submit", "subscribe", "sync", "take", "tap", "think", "thinking",
    "transfer", "turn", "type", "unblock", "unlock", "unsubscribe", "update", "upload", "upsert", "wait", "write",
})  # fmt: skip
"""Verbs of tools that act: they say that it was done, however many words that takes."""

# Elsewhere in a name these are things.
_ACTS_FIRST: Final = frozenset(("open", "order"))
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


# Separators are whatever is neither a letter nor a digit, as in "Transfer to Writer".
_HANDS_OVER: Final = re.compile(
    r"[\W_]*(?:transfer|hand[\W_]?off|delegate)[\W_]+(?:back[\W_]+)?to[\W_]+(.+)", re.IGNORECASE | re.DOTALL
)
_NOTHING_SAID: Final[tuple[Json, ...]] = (None, "", "{}", "null", {})


def receiver_in(tool: str) -> str | None:
    """Whom a tool by its name hands the conversation to, as it is written there; None where it hands nothing over."""
    match = _HANDS_OVER.fullmatch(tool)
    return match[1] if match else None


def only_hands_over(tool: str, arguments: Json) -> bool:
    """Whether a call says nothing but the name of an agent, in the tool's: it is no step, whatever agents there are."""
    return arguments in _NOTHING_SAID and receiver_in(tool) is not None


def words_of(tool: str) -> list[str]:
    """The words of a name in lower case, whether `in_snake_case`, `inCamelCase` or `with-hyphens`."""
    return [word.lower() for word in _WORDS.findall(tool)]


def reads(words: list[str]) -> bool:
    """Whether a tool with these words in its name tells of something."""
    return bool(words) and words[0] in _READS


def acts(words: list[str]) -> bool:
    """Whether a tool does something: any of its words is such a verb, unless the first says that it only reads."""
    return not reads(words) and not (ACTS.isdisjoint(words) and _ACTS_FIRST.isdisjoint(words[:1]))


def searches(words: list[str]) -> bool:
    """Whether a tool searches, and does nothing with what it finds."""
    return not _SEARCHES.isdisjoint(words) and not acts(words)


def judges(words: list[str]) -> bool:
    """Whether a tool decides something."""
    return not _JUDGES.isdisjoint(words[:1])


def gets_values(words: list[str]) -> bool:
    """Whether a tool gets or calculates values."""
    return bool(words) and words[0].startswith(_MEASURES)
