"""What an agent's words give away, in English.

Patterns are alternatives of fixed words, so that their time is linear in the text, of which the first
`MAX_ANSWER_CHARACTERS` are looked at. Other languages are not covered: there nothing is found, and `is_english` says
for a text whether finding nothing means anything.
"""

import re

from agenteval_collector.evaluators.port import MAX_ANSWER_CHARACTERS

HEDGE = re.compile(
    r"\b(?:i think|i believe|i guess|i assume|i suppose|i'm not sure|i am not sure|not certain|not entirely sure|unsure"
    r"|might|maybe|perhaps|possibly|probably|presumably|apparently|it seems|it appears|seems like|could be|may be"
    r"|as far as i know|to my knowledge|likely|unclear|hard to say)\b"
)
SELF_CORRECTION = re.compile(
    r"\b(?:i was wrong|i was mistaken|i made a mistake|i made an error|i misspoke|to correct myself"
    r"|(?:apologize|apologies|sorry) for the (?:confusion|mistake|error|oversight|misunderstanding)"
    r"|my (?:previous|earlier|last) (?:answer|response|reply|statement) was)\b"
)
ABANDONED_PLAN = re.compile(
    r"\b(?:(?:revised|new|updated|changed) plan|change of plans?|(?:different|another|new) approach)\b"
)
REFUSAL = re.compile(
    r"\b(?:i can't|i cannot|i can not|i am unable|i'm unable|i am not able|i'm not able|i could not|i couldn't"
    r"|i'm not allowed|i am not allowed|unable to (?:process|complete|fulfill|assist|proceed|help)"
    r"|cannot (?:process|complete|fulfill|assist|proceed|help|be (?:processed|completed|changed|modified|cancelled)))\b"
)
HAND_OFF = re.compile(
    r"\b(?:transfer(?:red|ring)? (?:you )?to a|connect(?:ed|ing)? you (?:to|with) a|hand(?:ed|ing)? you over to a"
    r"|escalat(?:e|ed|ing) (?:this|your|the|you)"
    r"|(?:contact|call|reach out to) (?:our |the |your )?(?:customer )?(?:support|service)"
    r" (?:team|desk|line|department))\b"
)

_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++(?:\s|$)|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_ENGLISH = frozenset("the is to of and you for it that your are with have can will this be from we my i".split())  # noqa: SIM905
_SHORT = 5
"""Words of a text that is too short to tell its language."""


def plain(text: str) -> str:
    """The text as the patterns want it: lower-cased, with straight apostrophes, cut."""
    return text[:MAX_ANSWER_CHARACTERS].lower().replace("’", "'")


def sentences(text: str) -> list[str]:
    """Sentences and lines of a plain text that hold a word."""
    return [" ".join(part.split()) for part in _SENTENCE_END.split(text) if _WORD.search(part)]


def is_english(text: str) -> bool:
    """Whether one word in twenty of a plain text is one that most English sentences have; short texts: ASCII only."""
    words = _WORD.findall(text)
    if len(words) < _SHORT:
        return text.isascii()
    return sum(word in _ENGLISH for word in words) * 20 >= len(words)
