"""Whether an answer is the expected one (Gaussia, "Agentic Metric", answer correctness), as far as it needs no judge.

Case, compatible forms of characters (NFKC), runs of white space, and punctuation around the texts make no difference.
An answer is right if it is the expected text, or contains it as whole words: `42` is in `It is 42.`, not in `142`.
"""

import re
import unicodedata
from typing import Final

from otel_agenteval.metrics.result import MetricResult

_AROUND: Final = " \t\n.,;:!?\"'`´’“”()[]{}*_"


def answer_correctness(answer: str, expected: str) -> MetricResult:
    """Return 1.0 if the answer is the expected one or contains it, else 0.0.

    Metadata: `match` (`exact`, `contained`, None). Raises ValueError for an expected answer without a word.
    """
    wanted, given = _plain(expected), _plain(answer)
    if not wanted:
        raise ValueError(f"expected is {expected!r:.200}, a text without a word")
    if given == wanted:
        match, reason = "exact", "the answer is the expected one"
    elif re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", given):
        match, reason = "contained", "the answer contains the expected one"
    else:
        return MetricResult(
            score=0.0, reason="the answer does not contain the expected one", evaluated=1, metadata={"match": None}
        )
    return MetricResult(score=1.0, reason=reason, evaluated=1, metadata={"match": match})


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_AROUND)
