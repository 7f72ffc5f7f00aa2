"""One sentence about a trace, and what to do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence about a trace; `advice` says what to do about it where something can be done."""

    text: str
    advice: str | None = None
