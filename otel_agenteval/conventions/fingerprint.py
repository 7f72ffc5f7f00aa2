"""Tell one version of an agent from the next where nobody says a version: by its instructions and its tools.

The fingerprint is a hash of both, without what changes from one run to the next: dates and times, the user's name and
record, ids, what was looked up. A rule that changes stays, and so do small numbers: a limit of 50 is not one of 100.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from otel_agenteval.model import Json

DIGITS: Final = 8
"""Hexadecimal digits of a fingerprint."""
MAX_READ: Final = 32 * 1024
"""Characters of instructions, and of definitions of tools, that count."""
KEPT: Final = 64
"""Pairs of instructions and definitions whose fingerprint is remembered, those that came last."""

KEPT_LINES: Final = 4096
"""Lines of instructions that are remembered without what changes in them, those that came last."""
MAX_LINE: Final = 500
"""Characters of such a line at most."""

VALUE: Final = "…"
"""Stands in the place of what was taken out."""

_PERSON: Final = "user|customer|client|passenger|guest|caller|patient|student|employee|member|visitor"
_MONTH: Final = (
    r"(?:jan|feb|mar|mär|apr|may|mai|mag|jun|jul|aug|sep|set|oct|okt|nov|dec|dez|déc|janv|févr|mars|avr|juin|juil|août"
    r"|ene|abr|ago|dic|gen|lug|giu|ott)[a-zéûä]{0,9}\.?"
)
_DAY: Final = (
    r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
)
_WORD: Final = r"[A-ZÀ-Þ][\w’'-]{0,40}"
_NAME: Final = rf"(?:'[^'\n]{{1,60}}'|\"[^\"\n]{{1,60}}\"|{_WORD}(?: {_WORD}){{0,3}}|[\w-]{{0,40}}[\d_]\w{{0,40}})"
_REST: Final = r"[^\n]*?(?=[.!?](?:\s|$)|$)"
"""What a line says after a label, up to the end of its sentence."""
_ZONE: Final = r"(?: ?(?:UTC|GMT|[CEMP][SED]?[ST]T)\b)?(?:[+-]\d{1,2}(?::?\d{2})?)?"

_BLOCK: Final = re.compile(
    r"(?i)<((?:env|environment|context|user|customer|profile|memor|document|search_result|additional|state|session"
    r"|workspace|retriev)\w{0,40})(?:\s[^<>\n]{0,200})?>"
)
"""The beginning of a block with what was looked up or is known of the user."""
# Instructions are hostile: every repetition is bounded, or ends with its line.
_BLOCK_RULES: Final = (
    # What was looked up, behind a heading.
    (
        r"(?im)^([^\n:]{0,60}(?:memor(?:y|ies)|profile|context|about the (?:user|customer)|origin of user's request)):"
        r"[ \t]*\n(?:[ \t]*[-*•][^\n]*(?:\n|\Z))+",
        rf"\1: {VALUE}\n",
    ),
    (r"(?im)^(context[^\n]{0,60})\n-{5,80}\n(?:(?!-{5})[^\n]*\n){1,2000}-{5,80}$", rf"\1 {VALUE}"),
)
"""What was looked up, over several lines."""
_LINE_RULES: Final = (
    # A label and a value: on a line of its own, within one, in JSON, as an assignment.
    (
        rf"(?im)^([ \t>*•-]{{0,20}}(?:[\w'’-]+ ){{0,3}}(?:date|time|now|today|{_PERSON}|id|e-?mail|phone|telephone"
        r"|directory|platform|os version|timezone|locale|lat|lon|city|country|branch"
        r"|(?:first|last|full|user|customer) ?name|(?:account|order|phone|customer|ticket|booking) (?:number|no\.?)))"
        rf"[ \t]{{0,20}}:[ \t]{{1,20}}{_REST}",
        rf"\1: {VALUE}",
    ),
    (
        rf"(?i)\b((?:current |logged-in )?(?:{_PERSON}|time|date)):[ \t]{{1,20}}\S{{1,200}}?(?=[.,;]?(?:\s|$))",
        rf"\1: {VALUE}",
    ),
    (
        r"(?i)(\"(?:\w{0,40}(?:_id|_name|_at|email|phone|date|time)|id|now|name|user|today)\"\s{0,9}:\s{0,9})"
        r"(?:\"[^\"\n]{0,500}\"|[\d.]+)",
        rf"\1{VALUE}",
    ),
    (r"(?i)\b(\w{0,40}(?:_id|_at|date|time)|now|id)=\S+", rf"\1={VALUE}"),
    # The names and numbers of people.
    (rf"(?i:\b(?:{_PERSON})(?:['’]s)?(?: (?:full|first|last))? (?:name )?is ){_NAME}", VALUE),
    (rf"(?i:\b(?:address|call|greet) (?:the )?(?:{_PERSON}) (?:as|by name:?) ?:?){_NAME}", VALUE),
    (rf"(?i:\b(?:talking|speaking|chatting) (?:to|with) |\bon behalf of ){_NAME}", VALUE),
    (rf"(?i:\b(?:{_PERSON})) (?:no\.? ?)?\d+", VALUE),
    # Dates and times.
    (r"\d{4}-\d{2}-\d{2}(?:[T ]\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?", VALUE),
    (r"\d{4} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]", VALUE),
    (
        rf"(?i)\b(?:(?:{_DAY})\b,? {{1,3}})?(?:the )?\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH},? (?:de )?"
        r"\d{4}\b",
        VALUE,
    ),
    (rf"(?i)\b(?:(?:{_DAY})\b,? {{1,3}})?{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b", VALUE),
    (r"\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b", VALUE),
    (rf"(?i)\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:[.,]\d{{1,9}})?(?: ?[ap]\.?m\b\.?)?{_ZONE}", VALUE),
    # Ids and addresses.
    (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", VALUE),
    (r"\b[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}\b", VALUE),
    (r"\b(?=\w{0,64}\d)(?=\w{0,64}[A-Za-z])\w{12,}\b", VALUE),
    (r"\b\d{5,}\b", VALUE),
)
"""What changes from one run to the next within a line, in the order in which it is taken out."""
_OF_BLOCKS, _OF_LINES = (
    tuple((re.compile(pattern), replacement) for pattern, replacement in rules) for rules in (_BLOCK_RULES, _LINE_RULES)
)


def fingerprint(instructions: str | None, tools: Json, names: Sequence[str] = ()) -> str | None:
    """Return the fingerprint of an agent, in `DIGITS` hexadecimal digits. Return None if nothing of it was recorded.

    `tools` are definitions as they were recorded, `names` those of tools without definitions.
    """
    if not instructions and tools is None and not names:
        return None
    definitions = tools if isinstance(tools, str) else "" if tools is None else repr(tools)
    return _fingerprint((instructions or "")[:MAX_READ], definitions[:MAX_READ] or "\n".join(sorted(names)))


@lru_cache(maxsize=KEPT)
def _fingerprint(instructions: str, tools: str) -> str:
    whole = f"{stable(instructions)}\0{tools}".encode(errors="replace")
    return hashlib.blake2b(whole, digest_size=DIGITS // 2).hexdigest()


def stable(text: str) -> str:
    """Return instructions without what changes from one run to the next, and with single spaces."""
    text = _without_blocks(text)
    for pattern, replacement in _OF_BLOCKS:
        text = pattern.sub(replacement, text)
    lines = (_known_line(line) if len(line) <= MAX_LINE else _line(line) for line in text.split("\n"))
    return " ".join(word for line in lines for word in line.split())


def _line(line: str) -> str:
    for pattern, replacement in _OF_LINES:
        line = pattern.sub(replacement, line)
    return line


# Where the time stands in the instructions, they are new in each trace, but for one line.
_known_line = lru_cache(maxsize=KEPT_LINES)(_line)


def _without_blocks(text: str) -> str:
    """Take out the content of blocks. Of blocks within each other the outermost counts."""
    lowered = text.lower()
    kept: list[str] = []
    unclosed: set[str] = set()
    at = 0
    for begin in _BLOCK.finditer(text):
        name = begin[1].lower()
        if begin.start() < at or name in unclosed:
            continue
        end = lowered.find(f"</{name}>", begin.end())
        if end < 0:
            # Nothing closes those behind it either: each would be looked for up to the end.
            unclosed.add(name)
            continue
        kept.append(text[at : begin.start()])
        at = end + len(name) + 3
    return VALUE.join([*kept, text[at:]])
