"""Read a trace in which no dialect finds a turn: an agent of a framework that nobody has described.

Its outermost span is taken for the turn, if something says that this is an agent's: both a question and an answer, or
an error or one of them in a session or beside a scope that records agents. The words stand under names that say input
or output in any spelling. A trace of a web server has none of this, and stays without turns.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.conventions.dialect import NOTHING, Attributes, SpanFacts, SpanRole
from otel_agenteval.conventions.framework_values import answered, asked
from otel_agenteval.conventions.identity import is_of_infrastructure
from otel_agenteval.conventions.scopes import records_agents
from otel_agenteval.conventions.span_errors import span_error
from otel_agenteval.conventions.tree import Node

_BEFORE: Final = r"(?:.*[._:-])?"
_AFTER: Final = r"(?:[._:-]?(?:value|text|content|message|messages|data|json))?"
_INPUT: Final = re.compile(
    rf"{_BEFORE}(?:user)?[._-]?(?:input|prompt|question|query|utterance|instruction){_AFTER}", re.IGNORECASE
)
_OUTPUT: Final = re.compile(
    rf"{_BEFORE}(?:final|agent|assistant|model|ai)?[._-]?(?:output|answer|completion|reply|response){_AFTER}",
    re.IGNORECASE,
)
_MOST_KEYS: Final = 4096
_LONGEST_NAME: Final = 100


def read_unknown(roots: Iterable[Node], *, has_session: bool) -> None:
    """Give the outermost spans of a trace the facts of turns, if they are an agent's.

    The words on a span that a dialect knows, and that plays no part in a turn, do not count.
    """
    for root in roots:
        facts = _facts(root)
        words = (facts.input, facts.output)
        is_agents = has_session or any(records_agents(node.span.scope) for node in root.below())
        if all(words) or (is_agents and (any(words) or span_error(root.span))):
            root.facts = facts


def _facts(node: Node) -> SpanFacts:
    if node.facts is not NOTHING:
        return SpanFacts(role=SpanRole.AGENT, agent=node.facts.agent)
    attributes = node.span.attributes
    return SpanFacts(
        role=SpanRole.AGENT,
        input=next(filter(None, map(_asked, _texts(attributes, _INPUT))), None),
        output=next(filter(None, map(_answered, _texts(attributes, _OUTPUT))), None),
    )


def _asked(text: str) -> Content | None:
    content = asked(text)
    return content if content and content.user_text() else None


def _answered(text: str) -> Content | None:
    content = answered(text)
    return content if content and content.answer() else None


def _texts(attributes: Attributes, names: re.Pattern[str]) -> Iterable[str]:
    """Yield the texts under such names, the shortest name first: it says the least beside that."""
    for key in sorted((key for key in attributes if _is_called(key, names)), key=len):
        if (text := known_text(attributes[key])) is not None:
            yield text


@lru_cache(maxsize=_MOST_KEYS)
def _is_called(key: str, names: re.Pattern[str]) -> bool:
    return len(key) <= _LONGEST_NAME and names.fullmatch(key) is not None and not is_of_infrastructure(key)
