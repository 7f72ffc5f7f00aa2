"""A summary of a turn, for comparison with later turns."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agenteval_collector.model.trace_view import TurnView
from otel_agenteval.detectors.fingerprints import is_speech
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.metrics.loops import LoopText
from otel_agenteval.model import Json, Turn

MAX_READ: Final = 20_000
"""Characters compared of a question, an answer, or the content of a call."""
BRIEF: Final = 40
"""Characters below which an answer is brief. Such an answer may be right for several questions."""
MAX_TOLD: Final = 2_000
"""Characters of a question and an answer whose words are compared."""
LONG: Final = 3
"""Letters of a word that may say something, and more."""
MAX_CALLS: Final = 100
"""Calls compared of a turn, the first ones."""
MAX_KEPT: Final = 8_000
"""Characters of a turn that are kept until its digests are asked for. Those of a longer turn are made at once."""

# Made once: `json.dumps` makes one for each text.
_json: Final = json.JSONEncoder(sort_keys=True).encode
_WORD: Final = re.compile(r"\w+")
_TIMES: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?|\d{1,2}[:h]\d\d(?::\d\d)?(?:\s?[ap]\.?m\b)?", re.IGNORECASE)
# A question of at most eight words, in scripts with spaces and without.
_NEWS: Final = re.compile(r"(?:[^\d\s?]{1,30}\s{1,3}){0,7}[^\d\s?]{1,30}\s?[?\uff1f\u061f]\s{0,3}")
_ASKS: Final = re.compile(r"[?\uff1f\u061f]")
_NAMED: Final = re.compile(r"\w+(?:[./_@]\w+)*")


@checked_dataclass(frozen=True, slots=True)
class TurnDigests:
    """Digests of a turn's question, answer and calls, valid within this process only.

    `asked` (the question) and `words` (the answer) are equal for equal words, `asked` whatever times and dates are in
    it; None if nothing was recorded, and for an answer that is a mere label. `brought` holds the successful calls, and
    the numbers and ids in them and in the answer. `is_brief`: the answer is shorter than `BRIEF`. `may_ask_for_news`:
    the question is short and has no number, and the answer asks nothing back. `told` holds the longer words of the
    answer, `taken_up` those of them that stand in the question.
    """

    asked: int | None = None
    words: int | None = None
    brought: frozenset[int] = frozenset()
    is_brief: bool = False
    may_ask_for_news: bool = False
    told: frozenset[int] = frozenset()
    taken_up: frozenset[int] = frozenset()


class TurnSummary:
    """A turn for comparison with later turns. Its `answer` is None if there was none.

    The digests of a turn take ten times the memory of its texts, and are asked for where answers are alike, which is
    rare. So short texts are kept until then.
    """

    __slots__ = ("_digests", "_texts", "answer")

    def __init__(self, answer: LoopText | None, texts: "TurnTexts | None" = None) -> None:
        """Take the answer, ready for comparison, and the texts of the turn; none of a turn that says nothing."""
        self.answer = answer
        self._texts = texts
        self._digests: TurnDigests | None = None
        if texts is not None and sum(map(len, texts.all)) > MAX_KEPT:
            self.digests  # noqa: B018 - makes them, and forgets the texts

    @property
    def digests(self) -> TurnDigests:
        """The digests of the turn, made where they are first asked for."""
        if self._digests is None:
            self._digests = TurnDigests() if self._texts is None else _digests_of(self._texts)
            self._texts = None
        return self._digests


class TurnTexts(NamedTuple):
    """What is compared of a turn: question, answer, and each successful call as name, arguments and result."""

    question: str | None
    output: str | None
    calls: Sequence[tuple[str, str, str]]

    @property
    def all(self) -> Iterator[str]:
        """All texts."""
        yield self.question or ""
        yield self.output or ""
        for call in self.calls:
            yield from call


def said_in(turn: Turn | TurnView, answer: LoopText | None) -> TurnSummary:
    """Summarise a turn. `answer` is its output, ready for comparison."""
    calls = [
        (call.name, _text(call.arguments), _text(call.result))
        for call in turn.tool_calls[:MAX_CALLS]
        if call.error is None
    ]
    return TurnSummary(answer, TurnTexts(turn.input, turn.output, calls))


def _digests_of(texts: TurnTexts) -> TurnDigests:
    question, output, calls = texts
    brought = _numbers(output)
    words = _long_words(output)
    for name, arguments, result in calls:
        brought |= {hash((name, arguments)), *_numbers(arguments), *_numbers(result)}
    return TurnDigests(
        asked=_words(_TIMES.sub(" ", question[:MAX_READ])) if question else None,
        words=_words(output) if output and is_speech(output) else None,
        brought=frozenset(brought),
        is_brief=output is not None and len(output.strip()) < BRIEF,
        may_ask_for_news=_NEWS.fullmatch(question or "") is not None and _ASKS.search(output or "") is None,
        told=words,
        taken_up=words & _long_words(question),
    )


def _words(text: str) -> int:
    return hash(tuple(_WORD.findall(text[:MAX_READ].lower())) or text)


def _long_words(text: str | None) -> frozenset[int]:
    words = _WORD.findall(text[:MAX_TOLD].lower()) if text else ()
    return frozenset(hash(word) for word in words if len(word) > LONG)


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
