"""Tell what of a trace nothing else tells of: steps that failed within a turn that did not, and spans that no dialect
knows though they look like an agent's."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from otel_agenteval.conventions.dialect import NOTHING, SpanRole
from otel_agenteval.conventions.identity import is_of_infrastructure, names_session
from otel_agenteval.conventions.span_errors import is_cancelled, span_error
from otel_agenteval.conventions.spans import STATUS_ERROR
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import FailedStep, Turn, UnknownSpans

MOST_STEPS: Final = 20
"""Failed steps of a trace that are told."""
MOST_SCOPES: Final = 8
"""Scopes of a trace whose spans are told to be unknown."""
_LONGEST_NAME: Final = 100

_TOLD_OF: Final = (SpanRole.MODEL, SpanRole.TOOL, SpanRole.AGENT)
"""Roles whose failures are findings of their own."""
_LOOKS: Final = {
    "input": re.compile(
        r"(?:.*[._:-])?(?:user_?)?(?:input|prompt|question|query)(?:[._](?:value|text|messages?))?", re.I
    ),
    "output": re.compile(r"(?:.*[._:-])?(?:output|answer|completion|reply)(?:[._](?:value|text|messages?))?", re.I),
    "usage": re.compile(r".*(?:input|output|prompt|completion|total|usage)[._]?tokens?(?:[._]count)?", re.I),
    "model": re.compile(r"(?:.*[._:-])?(?:llm|model)(?:[._](?:name|id))?", re.I),
    "tool": re.compile(r"(?:.*[._:-])?(?:tool|function)[._]?(?:name|call|id|arguments|args|result)", re.I),
}


def failed_steps(nodes: Iterable[Node], turns: Sequence[Turn]) -> tuple[FailedStep, ...]:
    """Return the innermost failed spans of turns that did not fail, if no failed call is around or within them."""
    failed = [node for node in nodes if node.span.status == STATUS_ERROR and not is_cancelled(node.span)]
    if not failed or not turns:
        return ()
    starts = [turn.started_at for turn in turns]
    # A failure passes on from the inside out: the innermost span tells it.
    outer = {id(above) for node in failed for above in node.above()}
    found: list[FailedStep] = []
    for node in sorted(failed, key=lambda node: node.span.started_at):
        turn = max(0, bisect_right(starts, node.span.started_at) - 1)
        if turns[turn].error is not None or id(node) in outer or len(found) == MOST_STEPS:
            continue
        around = any(above.role in _TOLD_OF and above.span.status == STATUS_ERROR for above in node.above())
        if not around and node.role not in _TOLD_OF and (error := span_error(node.span)):
            found.append(FailedStep(node.id, node.span.name, error, turn))
    return tuple(found)


def unknown_spans(nodes: Iterable[Node]) -> tuple[UnknownSpans, ...]:
    """Return the scopes with spans that no dialect knows and that look like an agent's, the most frequent first."""
    unread = [node.span for node in nodes if node.facts is NOTHING]
    if not unread:
        return ()
    counts: Counter[str] = Counter()
    looks: defaultdict[str, set[str]] = defaultdict(set)
    for span in unread:
        if found := {look for key in span.attributes if (look := _look(key))}:
            counts[span.scope] += 1
            looks[span.scope] |= found
    return tuple(
        UnknownSpans(scope[:_LONGEST_NAME], count, tuple(sorted(looks[scope])))
        for scope, count in counts.most_common(MOST_SCOPES)
    )


@lru_cache(maxsize=4096)
def _look(key: str) -> str | None:
    """Return the fact that an attribute seems to hold, by its name; None if it seems to hold none."""
    if len(key) > _LONGEST_NAME or is_of_infrastructure(key):
        return None
    if names_session(key):
        return "session"
    return next((fact for fact, form in _LOOKS.items() if form.fullmatch(key)), None)
