"""Make the shape of an error: what stays the same from one time to the next.

An error is taken apart into the type of its exception, a status of HTTP or an errno, and its sentence. Free, and so
taken out, are numbers, ids, quoted values, URLs, paths, values of `name=value`, names of classes and of people and
places, and what a sentence names last, such as a column. The words of the sentence stay, and so do the type, the status
and the errno: closed is not frozen, 403 is not 404. A shape is a pure function of the text, so it is the same in any
order and after any restart.
"""

import errno
import re
from typing import Final

from otel_agenteval.internal.text import cut

MAX_SHAPE: Final = 200
"""Characters of a shape."""
MAX_READ: Final = 2000
"""Characters of an error that are looked at."""

VALUE: Final = "…"
"""Stands in the place of a value that was taken out."""

_LONGEST_WORD: Final = 40
"""The most characters of a word that is no value. Longer ones are tokens, digests and the like."""
_WORDS_OF_MESSAGE: Final = 4
"""A quoted text with so many spaces is a message."""

_TYPE: Final = re.compile(
    r"(?:(?:[A-Za-z_]\w*\.)*(?P<type>[A-Z]\w*(?:Error|Exception|Timeout|Expired|Refused|Unavailable|NotFound|Violation"
    r"|Interrupt|Fault|Warning|Disallowed|Response|Canceled|Cancelled|Exit))|(?:[a-z_]\w*\.)+(?P<other>[A-Z]\w*))\s*[:(]\s*"
)
"""The type of an exception at the beginning of its text, with its module."""
_GENERAL: Final = frozenset(
    ("Error", "Exception", "BaseException", "ToolError", "ToolException", "RuntimeError", "_OTHER")
)
"""Types that say nothing: the same error may have them or not."""
_JSON: Final = re.compile(
    r"(?:Expecting (?:value|property name enclosed in double quotes|'.' delimiter)|Extra data"
    r"|Unterminated string starting at|Invalid (?:control character at|\\?escape)"
    r"|Illegal trailing comma before end of (?:object|array))"
    r": line \d+ column \d+ \(char \d+\)"
)
"""The messages of Python's decoder: which one comes depends on where the text is broken."""

_CHARACTER: Final = r"[\w@%+~-]"
_PARTS: Final = re.compile(
    rf"""
      (?P<status>  \b(?:http(?:/\d(?:\.\d)?)?|status(?:[_ ]?code)?|(?:error\ )?code|errno)[\s:=/"'\[-]{{1,3}}\d{{1,5}}\b
                 | ^\W?[45]\d\d\b | \b[45]\d\d(?=\ (?:client|server)\ error) )
    | (?P<url>     \b[a-z][a-z0-9+.-]{{1,20}}://[^\s"'<>)\]]+ )
    | (?P<path>    (?<![\w.])(?:[a-z]:)?(?:(?:[/\\]{_CHARACTER}[\w@%+~.:-]*){{2,}} | /{_CHARACTER}{{2,}})
                     (?:\?[^\s"'<>)\]]*)?
                 | \b[\w@.-]{{1,100}}(?:/[\w@.+-]{{1,100}}){{1,20}}\.[a-z]\w{{0,4}}\b )
    | (?P<setting> \b(?P<name>[a-z_]\w{{0,40}})=(?P<set>"[^"\n]*"|'[^'\n]*'|\{{[^}}\n]*\}}|\[[^\]\n]*\]|[^\s,;)\]]+) )
    | (?P<quoted>  (?<!\w)(?:"[^"\n]{{1,1000}}"|'[^'\n]{{1,1000}}'|`[^`\n]{{1,1000}}`|“[^”\n]{{1,1000}}”
                 | «[^»\n]{{1,1000}}»)(?!\w) )
    | (?P<word>    {_CHARACTER}+(?:[.:,]{_CHARACTER}+)* )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HEX: Final = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)
_MIXED: Final = re.compile(r"[A-Za-z][a-z0-9]+[A-Z]\w*")
_REPEATED: Final = re.compile(rf"{VALUE}(?:[\s,;./|-]*(?:\b(?:and|und|et|y|e)\b\s*)?{VALUE})+")
_TYPES: Final = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))
"""Quoted names that are those of JSON Schema, and no values."""
_TOLD: Final = frozenset(("type", "code", "status", "errno", "reason", "kind", "error", "level"))
"""Names of settings whose value tells errors apart."""
# What a sentence names last: "no such column: cargo"; and between colons: "bash: line 10: invoice: command not found".
_NAMED_LAST: Final = re.compile(
    r"(?i)(\b(?:no such|unknown|undefined|missing|invalid|unrecogni[sz]ed|unsupported|unexpected|duplicate|ambiguous) "
    r"[\w ]{2,30}:? )(?![A-Z]\w*Error)[\w.$@-]+$"
)
_BETWEEN_COLONS: Final = re.compile(
    r"(?<=: )[\w.$@/-]{1,60}(?=: (?:command |file )?(?:not found|no such|permission|is a))"
)
_SHELL: Final = re.compile(r"^(?:/\S*/)?\w{0,4}sh: (?:line )?(?:\d+: )?")
_NO_COMMAND: Final = re.compile(r"^\S+: (?:command )?not found$|^command not found: \S+$")
_LINE_OF_ONE_WORD: Final = re.compile(r"^[ \t]*[\w.\[\]-]{1,60}[ \t]*$", re.MULTILINE)
_REASONS: Final = frozenset(
    word
    for words in (
        "Bad Request Unauthorized Payment Required Forbidden Not Found Method Allowed Server Conflict Gone Entity",
        "Content Unprocessable Too Many Requests Internal Error Client Gateway Service Unavailable Timeout Large",
        "Acceptable Locked",
        "Failed Implemented API JSON HTTP HTTPS SQL XML URL SSL TLS DNS TCP CSV PDF ID OAuth I JWT Field Input Output",
        "Invalid No Unknown Missing Cannot Could Unable Please The",
    )
    for word in words.split()
)
"""Words that may stand with a capital inside a sentence, and are no names."""
_ERRNO: Final = frozenset(errno.errorcode.values()) | {"ENOTFOUND", "ENODATA", "EAI_AGAIN", "EAI_NONAME"}
"""Names of system errors: ECONNRESET is not ETIMEDOUT."""
_GERMAN: Final = re.compile(r"\b(?:der|die|das|den|dem|nicht|kein|keine|ist|wurde|wird|für|und|von|mit|beim|zu)\b")
"""In this language every noun has a capital."""
_NAME: Final = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-zà-ÿ]+|[A-Z]{2,}\d*)(?: [A-Z][a-zà-ÿ]+)*(?![\w(:])")
_NAME_BEHIND: Final = re.compile(r"(?<=[a-z] )[A-Z][a-zà-ÿ]+$")


def shape_of(error: str, kind: str | None = None) -> str:
    """Return the shape of an error, at most `MAX_SHAPE` characters on one line. It is empty for an empty text.

    `kind` is the type of the exception, if it is not in the text.
    """
    text = error[:MAX_READ].strip()
    type_name = _type_of(kind) if kind else None
    while (match := _TYPE.match(text)) is not None and match.end() < len(text):
        type_name = _type_of(match["type"] or match["other"]) or type_name
        text = text[match.end() :]
    sentence = _sentence(text)
    if not sentence:
        return cut(type_name or "", MAX_SHAPE)
    return cut(sentence if type_name is None or type_name in sentence else f"{type_name}: {sentence}", MAX_SHAPE)


def _type_of(name: str) -> str | None:
    """Return the name of a type without its module; None if it says nothing."""
    short = name.rpartition(".")[2]
    return None if short in _GENERAL or not short or _has_digit(short) else short


def _sentence(text: str) -> str:
    text = _NO_COMMAND.sub("command not found", _SHELL.sub("", _JSON.sub("the JSON is broken", text)))
    lines = _LINE_OF_ONE_WORD.sub(VALUE, text) if "\n" in text else text
    line = " ".join(lines.split())
    line = _BETWEEN_COLONS.sub(VALUE, _NAMED_LAST.sub(rf"\1{VALUE}", line))
    # What a sentence begins with is not its message if it is a value: "1 validation error".
    return _REPEATED.sub(VALUE, _without_names(_PARTS.sub(_replacement, line))).lstrip(f"{VALUE} :,;-") or VALUE * bool(
        line
    )


def _without_names(line: str) -> str:
    """Take out words with a capital inside a sentence: names of people, places and products."""
    if _GERMAN.search(line):
        return line

    def named(match: re.Match[str]) -> str:
        words = match[0].split()
        return match[0] if any(word in _REASONS or word in _ERRNO for word in words) else VALUE

    return _NAME_BEHIND.sub(named, _NAME.sub(named, line))


def _replacement(match: re.Match[str]) -> str:
    text = match.group()
    match match.lastgroup:
        case "status":
            # A status stays, because 404 and 500 are different errors.
            return text
        case "url" | "path":
            return VALUE
        case "setting":
            is_told = match["name"].lower() in _TOLD and not _is_value(match["set"])
            return f"{match['name']}={match['set'] if is_told else VALUE}"
        case "quoted":
            return _quoted(match)
        case _:
            return VALUE if _is_value(text) else text


def _quoted(match: re.Match[str]) -> str:
    """Return a quoted message without its values, and the name of a field or of a type as it is."""
    text, inner = match.group(), match.group()[1:-1]
    if _is_key(match) or inner in _TYPES:
        return text
    return f"{text[0]}{_sentence(inner) if inner.count(' ') >= _WORDS_OF_MESSAGE else VALUE}{text[-1]}"


def _is_key(match: re.Match[str]) -> bool:
    """Return whether a quoted text is the name of a field of an object in JSON or Python."""
    before, behind = match.string[: match.start()].rstrip()[-1:], match.string[match.end() :].lstrip()[:1]
    return before in ("{", ",") and behind == ":" and not _is_value(match.group()[1:-1])


def _is_value(word: str) -> bool:
    is_address = "@" in word[1:-1]
    is_class = _MIXED.fullmatch(word) is not None
    return is_address or is_class or len(word) > _LONGEST_WORD or bool(_HEX.fullmatch(word)) or _has_digit(word)


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))
