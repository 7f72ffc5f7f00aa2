"""Sum up a turn of a session, as far as later turns are compared with it."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from otel_agenteval.detectors.content import is_speech
from otel_agenteval.metrics import LoopText
from otel_agenteval.model import Json, Turn

MAX_READ: Final = 20_000
"""Characters of a question, an answer, or the content of a call that are read."""
BRIEF: Final = 40
"""Characters below which an answer is brief: so short a one may rightly be given to several questions."""
MAX_CALLS: Final = 100
"""Calls of a turn that are looked at, the first ones."""

_WORD: Final = re.compile(r"\w+")
_NAMED: Final = re.compile(r"\w+(?:[./_@]\w+)*")


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """One turn. `answer` is None where there was none; `asked` and `words` are equal for the same words, None where
    nothing was recorded, and for an answer that is a mere label. `brought` holds its successful calls, and the numbers
    and ids in its answer and in those calls: all as digests, which hold as long as the process. `is_brief`: its answer
    is shorter than `BRIEF`."""

    answer: LoopText | None
    asked: int | None = None
    words: int | None = None
    brought: frozenset[int] = frozenset()
    is_brief: bool = False


def said_in(turn: Turn, answer: LoopText | None) -> SaidTurn:
    """Sum up a turn; `answer` is its output, ready for comparison."""
    calls = ((each.name, each.arguments, each.result, each.error) for each in turn.tool_calls)
    return _said(turn.input, turn.output, answer, calls)


def said_in_document(turn: Mapping[str, Any], answer: LoopText | None) -> SaidTurn:
    """The same, of a turn as a trace's document has it."""
    calls = ((each["name"], each["arguments"], each["result"], each["error"]) for each in turn["tools_called"])
    return _said(turn["input"], turn["output"], answer, calls)


def _said(
    question: str | None,
    output: str | None,
    answer: LoopText | None,
    calls: Iterable[tuple[str, Json, Json, str | None]],
) -> SaidTurn:
    brought = _numbers(output)
    for name, arguments, result, error in islice(calls, MAX_CALLS):
        if error is None:
            written = _text(arguments)
            brought |= {hash((name, written)), *_numbers(written), *_numbers(_text(result))}
    return SaidTurn(
        answer=answer,
        asked=_words(question) if question else None,
        words=_words(output) if output and is_speech(output) else None,
        brought=frozenset(brought),
        is_brief=output is not None and len(output.strip()) < BRIEF,
    )


def _words(text: str) -> int:
    return hash(tuple(_WORD.findall(text[:MAX_READ].lower())) or text)


def _numbers(text: str | None) -> set[int]:
    """The words that hold a digit, and those with a dot, a slash or the like inside, as names of files."""
    words = _NAMED.findall(text[:MAX_READ]) if text else ()
    return {hash(word) for word in words if not word.isalpha()}


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    try:
        return json.dumps(content, sort_keys=True)
    except RecursionError:
        return ""
