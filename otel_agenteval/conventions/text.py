"""Tell text in telemetry that says something from blanks and redactions."""

import re
from typing import Any, Final

_REDACTED: Final = re.compile(
    r"__REDACTED__|[\[<(]?REDACTED[\])>]?|readacted|<not (?:specified|serializable)>|\[Scrubbed due to .*", re.DOTALL
)
# What every redaction begins with, and few other texts: looked at first, as there are many of them.
_REDACTED_BEGINS: Final = frozenset("_[<(Rr")


def known_text(text: Any) -> str | None:
    """Return `text` if it says anything: None for other types, blank text, and what a redaction left in its place."""
    if not isinstance(text, str):
        return None
    # Expressions with blanks at both ends take time that grows with the square of how many there are.
    said = text.strip()
    if not said or (said[0] in _REDACTED_BEGINS and _REDACTED.fullmatch(said)):
        return None
    return text
