"""The net for tokens of no known form: long runs in which letters and digits are as mixed as chance makes them.

Off by default, because ids look alike: what it takes for a token may be evidence.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

SHORTEST: Final = 20
"""Characters of the shortest token."""
LEAST_BITS: Final = 3.5
"""The least entropy of a token, in bits per character. Words have less than 3.3, random letters and digits of 20
characters about 4."""
_JUDGED: Final = 256
"""Characters by which a long token is judged, so that a text takes linear time."""
_RUN: Final = re.compile(rf"[A-Za-z0-9_+/=~-]{{{SHORTEST},}}+")
_KNOWN: Final = re.compile(
    # Digests and other hexadecimal digits, UUIDs, ids of messages and calls, times and versions, and paths.
    r"[0-9a-fA-F-]+|(?:sha(?:1|256|512)[-_:])?[0-9a-f]+"
    r"|(?:call|toolu|msg|resp|fc|rs|ws|run|thread|asst|file|vs|step|batch|req|evt|item|gen|trace|span|chatcmpl)[_-].+"
    r"|[0-9T:.+Z-]+|/.*|(?:[\w.-]+/){2,}.*"
)
_CHANGE: Final = re.compile(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])|[a-z](?=[A-Z])")


def unknown_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what looks like a token, whatever its form."""
    for run in _RUN.finditer(text):
        if _is_token(run[0][:_JUDGED]):
            yield run.span()


def _is_token(run: str) -> bool:
    if _KNOWN.fullmatch(run):
        return False
    counts, size = Counter(run), len(run)
    bits = -sum(count / size * math.log2(count / size) for count in counts.values())
    # A word with a number behind it changes once; chance does it all the time.
    return bits >= LEAST_BITS and len(_CHANGE.findall(run)) >= size / 6
