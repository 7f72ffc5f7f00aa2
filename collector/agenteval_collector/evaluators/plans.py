"""Plans in the texts that a trace has for them: lists of at least two steps.

Steps are numbered (1. 2. 3., from 1 on, also within a line) or stand on lines of their own behind a bullet. A text
without such a list ("Let me check that first") is no plan that could be followed step by step.
"""

import re
from collections.abc import Sequence

from agenteval_collector.evaluators.port import MAX_ANSWER_CHARACTERS, unanswered, unrecorded
from agenteval_collector.evaluators.reasons import not_applicable
from otel_agenteval.metrics.text import STOP_WORDS
from otel_agenteval.model import Trace, Turn
from otel_agenteval.outcome import Unscored

MAX_STEPS = 100
"""Steps of a plan that are looked at."""

_NUMBER = re.compile(r"(?:^|(?<=\s))(\d{1,3})[.)][ \t]")
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+|[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def steps(text: str) -> tuple[str, ...]:
    """The steps that the text lists, blank ones too; none where it lists fewer than two."""
    text = text[:MAX_ANSWER_CHARACTERS]
    numbered: list[re.Match[str]] = []
    for match in _NUMBER.finditer(text):
        if int(match[1]) == len(numbered) + 1:
            numbered.append(match)
    marks = numbered if len(numbered) > 1 else list(_BULLET.finditer(text))
    if len(marks) < 2:
        return ()
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    listed = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)]
    return tuple(step.partition("\n")[0].strip() for step in listed[:MAX_STEPS])


def stated_plan(turn: Turn) -> tuple[str, ...]:
    """The steps of the turn's last plan: a later one replaces those before it. None where none lists steps."""
    return next(filter(None, map(steps, reversed(turn.plan))), ())


def no_plan(trace: Trace) -> Unscored:
    """Why there is no list of steps to score."""
    if not trace.turns:
        return unanswered(trace)
    if any(text.strip() for turn in trace.turns for text in turn.plan):
        return not_applicable("what was said beside the calls lists no steps; takes a judge")
    if all(turn.output is None and turn.error is None for turn in trace.turns):
        return unrecorded("what the agent said", trace)
    return not_applicable("no plan stated")


def content_words(*texts: str) -> frozenset[str]:
    """Words that carry meaning, in lower case and without a plural's s; names in code are taken apart."""
    found = [word for text in texts for word in _WORD.findall(_HUMP.sub(" ", text).lower())]
    return frozenset(_singular(word) for word in found if len(word) > 1 and word not in STOP_WORDS)


def share(part: frozenset[str], whole: Sequence[frozenset[str]]) -> float:
    """The greatest share of the words of `part` that one of `whole` has; `part` is not empty."""
    return max((len(part & each) for each in whole), default=0) / len(part)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
