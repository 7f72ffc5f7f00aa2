"""Patterns of one's own, in RE2: linear in the text, whatever the pattern."""

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agenteval.redaction.kinds import Kind, Match


class OwnPatterns:
    """Patterns by name; a placeholder bears the name in capitals.

    Raises ValueError for a pattern that RE2 does not read, or that matches where nothing is, and ImportError without
    the package `google-re2`.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns: dict[str, Any] = {name.upper(): _compiled(name, each) for name, each in patterns.items()}

    def find(self, text: str) -> Iterator[Match]:
        """Yield what the patterns match, one after the other."""
        for kind, pattern in self._patterns.items():
            for match in pattern.finditer(text):
                if match[0]:
                    yield Match(kind, *match.span())


def _compiled(name: str, pattern: str) -> Any:
    # Only here: most processes have no patterns of their own, and agents not the package.
    import re2  # noqa: PLC0415

    if not name.isidentifier() or not name.isascii() or not name[0].isalpha() or len(name) > 40:
        raise ValueError(
            f"{name!r} is no name of a pattern: give letters, digits and underscores, a letter first, at most 40"
        )
    if name.upper() in Kind.__members__:
        raise ValueError(f"{name!r} is a kind of its own: give the pattern another name")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(
            f"pattern {name!r} cannot be read by RE2 ({reason}): it has no backreferences, no look-around"
        ) from error
    if compiled.search("") is not None:
        raise ValueError(f"pattern {name!r} matches where nothing is: make it match at least one character")
    return compiled
