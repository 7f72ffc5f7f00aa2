"""A summary of a turn, for comparison with later turns."""

import json
import re
from typing import Final

from agenteval_collector.model.trace_view import TurnView
from otel_agenteval.detectors.fingerprints import is_speech
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.metrics.loops import LoopText
from otel_agenteval.model import Json, Turn

MAX_READ: Final = 20_000
"""Characters compared of a question, an answer, or the content of a call."""
BRIEF: Final = 40
"""Characters below which an answer is brief. Such an answer may be right for several questions."""
MAX_CALLS: Final = 100
"""Calls compared of a turn, the first ones."""

# Made once: `json.dumps` makes one for each text.
_json: Final = json.JSONEncoder(sort_keys=True).encode
_WORD: Final = re.compile(r"\w+")
_NAMED: Final = re.compile(r"\w+(?:[./_@]\w+)*")


@checked_dataclass(frozen=True, slots=True)
class TurnSummary:
    """A turn's question, answer and calls, as digests that are valid within this process only.

    `answer` is None where there was none. `asked` (the question) and `words` (the answer) are equal for equal words;
    None where nothing was recorded, and for an answer that is a mere label. `brought` holds the successful calls, and
    the numbers and ids in them and in the answer. `is_brief`: the answer is shorter than `BRIEF`.
    """

    answer: LoopText | None
    asked: int | None = None
    words: int | None = None
    brought: frozenset[int] = frozenset()
    is_brief: bool = False


def said_in(turn: Turn | TurnView, answer: LoopText | None) -> TurnSummary:
    """Summarise a turn. `answer` is its output, ready for comparison."""
    question, output = turn.input, turn.output
    brought = _numbers(output)
    for call in turn.tool_calls[:MAX_CALLS]:
        if call.error is None:
            written = _text(call.arguments)
            brought |= {hash((call.name, written)), *_numbers(written), *_numbers(_text(call.result))}
    return TurnSummary(
        answer=answer,
        asked=_words(question) if question else None,
        words=_words(output) if output and is_speech(output) else None,
        brought=frozenset(brought),
        is_brief=output is not None and len(output.strip()) < BRIEF,
    )


def _words(text: str) -> int:
    return hash(tuple(_WORD.findall(text[:MAX_READ].lower())) or text)


def _numbers(text: str | None) -> set[int]:
    """Return the words that hold a digit, and those with a dot, a slash or the like inside, such as names of files."""
    words = _NAMED.findall(text[:MAX_READ]) if text else ()
    return {hash(word) for word in words if not word.isalpha()}


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    try:
        return _json(content)
    except RecursionError:
        return ""
