"""What a result tells: its content without what differs each time the same is asked, and how alike two results are.

Results are compared as text, whatever envelope they come in: MCP content, JSON in JSON, headers, logs. So a
volatile field is known by its name or its form in any notation. Content may be hostile: only `MAX_COMPARED`
characters are looked at, and every pattern takes time in proportion to them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from otel_agenteval.detectors.call_envelopes import unwrapped
from otel_agenteval.detectors.fingerprints import MAX_DECODED, decoded_json
from otel_agenteval.detectors.volatile import VolatileValues, without
from otel_agenteval.model import CallOutcome, Json

MAX_COMPARED: Final = 2048
"""Characters of a result that are kept and compared: its beginning, its middle and its end."""

MAX_ARGUMENTS: Final = 1000
"""Characters of the arguments of a call that are kept. Values behind them are not looked for anywhere."""

MIN_PAGE: Final = 300
"""Characters from which a text that is no JSON is compared by its shingles."""
SHINGLE: Final = 5
"""Characters of a shingle. A letter that was read wrongly changes five of them."""
NEAR: Final = 0.67
"""Share of the shingles that two texts have in common if they are nearly the same page, log or picture. Two readings of
one picture with a wrong letter in 60 have 0.70 to 0.78 in common, snapshots of two pages of one site up to 0.63."""

MIN_CONTENT: Final = 80
"""Characters of words and numbers from which a result is content. A shorter one is a confirmation or a value, which
may rightly be the same for many calls."""


FEW_IDS: Final = 5
"""Ids and numbers in which the same content may differ."""
DIGITS: Final = 6
"""Words of the same content for each of them."""

MIN_ECHO: Final = 3
"""Characters of an argument that may stand by chance in an address."""

SHORT: Final = 24
"""Characters that a word or a value has at most."""

MAX_CONFIRMATION: Final = 600
"""Characters, with those of names of fields and of ids, that a result without content has at most."""


class Likeness(IntEnum):
    """How much two results tell the same."""

    OTHER = 0
    NEAR = 1
    """Only ids, single numbers, or some words of a long text differ."""
    SAME = 2


# Names of fields that tell of the call and not of what was asked for.
_OF_THE_CALL: Final = re.compile(
    r"took(?:_?in)?(?:_?millis|_?ms)?|elapsed\w*|latency\w*|duration\w*|uptime\w*"
    r"|(?:response|search|query|processing|execution|exec|run|request|server|current|compute|wall|cpu|db|inference"
    r"|generation|total_?search|total_?formatted_?search|time_?taken|local|system)_?time\w*|time_?taken\w*"
    r"|timestamp\w*|\w{1,20}_?timestamp|ts|as_?of|now|utc_?now|epoch\w*|unix_?time\w*"
    r"|(?:generated|retrieved|fetched|served|queried|checked|requested|responded|cached|refreshed|captured|crawled"
    r"|last_?(?:checked|fetched|refreshed|polled|seen|run))(?:_?(?:at|on))?"
    r"|(?:x[-_])?(?:amzn?[-_])?(?:request|req|trace|span|correlation|call|tool_?call|tool_?use|invocation|response|query"
    r"|search|scroll|pit|log|job_?run|completion)[-_]?id|(?:cf-)?ray|nonce|e-?tag|system_?fingerprint|request_?token"
    r"|attempts?|attempt_?(?:no|number|count)|retry(?:_?count)?|retries|tries|retry_?after|iteration|call_?count"
    r"|(?:x-)?(?:rate_?limit|quota)[-\w]*|credits(?:_?(?:used|left|remaining))?|pid|ttl|age|cache_?hit|served_?by|host_?name"
    r"|\w{0,20}(?:took|time_?(?:ms|taken)|duration|latency)\w{0,10}",
    re.IGNORECASE,
)
_REASONS: Final = frozenset(("reasoning", "thought", "thoughts", "explanation", "rationale", "justification", "intent"))
# Names of fields that identify something, unless they point to the next page.
_IDENTIFIES: Final = re.compile(
    r"(?!.*(?:cursor|next|offset|page|continuation))(?:\w{0,24}_?(?:id|uuid|guid|sha|hash|key|ref|reference|number|no|code"
    r"|confirmation|url|link)|permalink)",
    re.IGNORECASE,
)
_FIELD: Final = re.compile(
    r"""(?<![\w-])(?P<name>[A-Za-z][\w-]{0,40})(?P<between>\\*["']?\s{0,3}[:=]\s{0,3})"""
    r"""(?P<value>\\*["'][^"'\\]{0,80}\\*["']|[^\s,;"'\\}\]){\[]{1,80})"""
)
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_DATE: Final = r"(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})"
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_STAMP: Final = rf"{_DATE}[T ,]{{1,2}}{_CLOCK}(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_DURATION: Final = (
    r"\d{1,9}(?:\.\d{1,9})?\s?(?:ms|µs|μs|us|ns|msecs?|millis(?:econds)?)\b|\d{1,9}\.\d{1,9}\s?s(?:ecs?|econds?)?\b"
    r"|\d{1,4}m\s?\d{1,2}(?:\.\d+)?s\b|(?<=\()\d{1,9}s(?=\))"
    r"|(?:(?<=\bin )|(?<=\bafter )|(?<=\btook )|(?<=\bwithin ))"
    r"\d{1,9}(?:\.\d+)?\s?(?:s|secs?|seconds?|m|min|minutes?)\b"
)
_ALWAYS: Final = re.compile(
    rf"^\W{{0,2}}(?:{_STAMP}|{_CLOCK})|[\[(<](?:{_STAMP}|{_CLOCK})[\])>]|{_DURATION}|0x[0-9a-f]{{4,16}}|/tmp/[\w./-]{{1,80}}"
    # Where compilers, GraphQL and BuildKit say that something is, and when.
    r"|:\d{1,6}(?::\d{1,6})?(?=:? (?:fatal )?(?:error|warning)\b)|\"locations\":\s?\[[^\]]{0,300}\]"
    r"|^#\d{1,4} \d{1,6}\.\d{1,3}(?=\s)"
    r"|\[ref=[\w¤]{1,12}\]|^\s{0,40}\[\d{1,6}\]|\buid=\d{1,6}_\d{1,6}"
    r"|\bpid:?\s\d{1,9}\b|(?:^|(?<=\s\s))\d{1,4}[smhd](?:\d{1,2}[smh])?(?=\s|$)|\b\d{1,6}[smhd] ago\b",
    re.IGNORECASE | re.MULTILINE,
)
_TIME: Final = re.compile(
    rf"{_STAMP}|{_DATE}|\b{_CLOCK}|\b1[5-9]\d{{8}}(?:\.\d{{1,9}}|\d{{3}}|\d{{6}}|\d{{9}})?\b"
    rf"|(?:\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},?\s)?(?:\b\d{{1,2}}\s{_MONTH}|\b{_MONTH}\s\d{{1,2}}\b)"
    rf"(?:,?\s\d{{4}})?|\b\d{{1,6}}\s(?:seconds?|minutes?|hours?|days?)\sago\b",
    re.IGNORECASE,
)
_ID: Final = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|#\d{1,12}\b|\b\d{9,40}\b"
    r"|\b(?=[A-Za-z_-]{0,40}\d)(?=[\d_-]{0,40}[A-Za-z])[A-Za-z0-9_-]{8,128}\b|\b[A-Z]{1,6}-\d{2,12}\b"
)
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_RANDOM_ID: Final = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[a-f]{0,64}\d)(?=\d{0,64}[a-f])[0-9a-f]{12,64}\b"
)
_PLACE: Final = re.compile(r"^(?:\s.*|Traceback \(most.*)\n?", re.MULTILINE)
_WITH_DIGIT: Final = re.compile(r"[\w-]*\d[\w.-]*")
_MIXED: Final = re.compile(r"\b(?=\w{0,40}\d)(?=\w{0,40}[^\W\d_])\w{5,128}\b")
_QUOTED: Final = re.compile(r"""["'`‘“«]([^"'`’”»]{2,80})["'`’”»]""")
# A number between 0 and 1, as of a likeness.
_SCORE: Final = re.compile(r"\b0?\.\d{3,20}\b")
_WORD: Final = re.compile(r"\w+")
_FIELD_NAME: Final = re.compile(r"""\\*["']?[\w-]{1,40}\\*["']\s{0,3}:|\b[\w-]{1,40}\s?[=:]""")
_HIDDEN: Final = "¤"
_AROUND: Final = ';. "'
_GLANCE: Final = 800
"""Characters by which most results are told apart without masking them."""
_FEW_TOKENS: Final = 8
"""Words in which results of different arguments may differ before they are masked."""


class Result:
    """What came of a call, kept to be compared. It is masked only when something is compared with it."""

    __slots__ = (
        *("_call", "_glance", "_ids", "_known", "_masked", "_times", "_words"),
        *("arguments", "finds_nothing", "hash", "text", "volatile"),
    )

    def __init__(
        self,
        result: Json,
        arguments: str = "",
        outcome: CallOutcome = CallOutcome.UNKNOWN,
        volatile: VolatileValues | None = None,
    ) -> None:
        """Keep `result`, and what came of the call. Fields may repeat a value of the call's `arguments`. `volatile` is
        what was learnt of the tool."""
        text = written_json(result)
        self.hash = hash(text)
        self.text = _cut(text)
        self.arguments = arguments
        self.finds_nothing = outcome is CallOutcome.NOTHING
        self.volatile = volatile
        self._known: object = None
        self._masked: str | None = None
        self._glance: set[str] | None = None
        self._call: str | None = None
        self._times: str | None = None
        self._ids: str | None = None
        self._words: set[str] | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing was said."""
        return not self.text.strip()

    def of_the_call(self) -> str:
        """Return the text without what tells of the call: durations, ids of requests, times of log lines, and whatever
        else was learnt to be volatile."""
        known = None if self.volatile is None else self.volatile.known
        if self._call is None or known is not self._known:
            self._known, self._times, self._ids, self._words = known, None, None, None
            self._call = self._without_volatile(self.masked())
        return self._call

    def masked(self) -> str:
        """Return the text without what is known to tell of the call by its form or the name of its field."""
        if self._masked is None:
            is_rpc = '"jsonrpc"' in self.text
            echoes = {value for _, value in leaves(self.arguments)}

            def hidden(field: re.Match[str]) -> str:
                value = field["value"].strip("\\\"'")
                is_echo = value in echoes or (is_rpc and field["name"] == "id")
                if value.startswith("http"):
                    text = value.replace("+", " ").replace("%20", " ")
                    is_echo = any(len(echo) > MIN_ECHO and echo in text for echo in echoes)
                return _hide(field) if is_echo or is_of_the_call(field["name"]) else field[0]

            self._masked = _ALWAYS.sub(_HIDDEN, _FIELD.sub(hidden, _canonical(self.text)))
        return self._masked

    def _without_volatile(self, text: str) -> str:
        """Return a text without volatile values, unless these are what it tells."""
        if self.volatile is None:
            return text
        rest = without(text, self.volatile.known)
        return rest if rest is text or len(_said(_TIME.sub("", rest)).strip()) > SHORT else text

    def without_times(self) -> str:
        """Return `of_the_call` without times and dates."""
        text = self.of_the_call()
        if self._times is None:
            self._times = _TIME.sub(_HIDDEN, text)
        return self._times

    def without_ids(self) -> str:
        """Return `without_times` without ids, except those that point to the next page."""
        text = self.without_times()
        if self._ids is None:
            text = _FIELD.sub(_hide_id, text)
            self._ids = _ID.sub(lambda match: _HIDDEN if any(map(str.isdigit, match[0])) else match[0], text)
        return self._ids

    def new_names(self) -> set[str]:
        """Return what the result names and the call did not: ids, in a field that identifies or by their form."""
        text = self.without_times()
        named = {field["value"].strip("\\\"'") for field in _FIELD.finditer(text) if _identifies(field["name"])}
        found = {name for name in (*named, *_ID.findall(text), *_MIXED.findall(text)) if any(map(str.isdigit, name))}
        return {name for name in found if name not in self.arguments}

    def frame(self) -> str:
        """Return `without_times` without any word that has a digit."""
        return _WITH_DIGIT.sub(_HIDDEN, self.without_times())

    @property
    def says_less_than_asked(self) -> bool:
        """True if the arguments have more to say than the result, as those of a message that is only confirmed."""
        words = [value for _, value in leaves(self.arguments) if " " in value.strip() or len(value) > SHORT]
        letters = sum(map(str.isalpha, "".join(words)))
        return not self.is_hollow and letters > sum(map(str.isalpha, _said(self.frame())))

    def glance(self) -> set[str]:
        """Return the words at the beginning."""
        if self._glance is None:
            self._glance = set(self.text[:_GLANCE].replace(",", " ").split())
        return self._glance

    def words(self) -> set[str]:
        """Return the words of `without_times`, but no scores."""
        text = self.without_times()
        if self._words is None:
            self._words = set(_WORD.findall(_SCORE.sub("", text)))
        return self._words

    def was_all_told(self, earlier: Sequence["Result"]) -> bool:
        """Return whether earlier results have all words of this one."""
        # The plain words first, because they are far cheaper.
        if 3 * len(self.glance() & earlier[-1].glance()) < len(self.glance()):
            return False
        if len(self.glance().difference(*(result.glance() for result in earlier))) > _FEW_TOKENS:
            return False
        return not self.words().difference(*(result.words() for result in earlier))

    def numbers(self) -> list[float]:
        """Return the numbers that stand in `without_ids`."""
        return [
            float(digits.replace(",", "")) if digits.count(".") < 2 else 0.0
            for digits in _NUMBER.findall(self.without_ids())
        ]

    @property
    def may_confirm(self) -> bool:
        """True if the result is short enough to be a confirmation, a verdict or a value."""
        return len(self.text) <= MAX_CONFIRMATION

    @property
    def is_content(self) -> bool:
        """True if the result is more than a confirmation, a verdict or a value."""
        return not self.may_confirm or len(_said(self.of_the_call())) > MIN_CONTENT

    @property
    def is_page(self) -> bool:
        """True if the result is a long text."""
        return len(self.text) >= MIN_PAGE

    @property
    def is_short(self) -> bool:
        """True if the result is a word or a value."""
        return len(_said(self.of_the_call())) <= SHORT

    @property
    def tells_numbers(self) -> bool:
        """True if hardly anything but ids and numbers is told."""
        return len(_NUMBER.sub("", _said(self.without_ids())).strip()) <= SHORT

    @property
    def is_hollow(self) -> bool:
        """True if nothing remains but times: the result of a clock."""
        return not _WORD.search(_said(self.without_times())) and _TIME.search(self.text) is not None


def likeness(result: Result, earlier: Result) -> Likeness:
    """Return how alike two results of the same call are. Times, ids and single numbers that differ are nothing by
    themselves."""
    if result.hash == earlier.hash or (result.finds_nothing and earlier.finds_nothing):
        return Likeness.SAME
    if not _may_be_alike(result, earlier, _GLANCE):
        return Likeness.OTHER
    for masked in (Result.of_the_call, Result.without_times):
        if masked(result) == masked(earlier):
            return Likeness.NEAR if result.is_hollow else Likeness.SAME
    return Likeness.NEAR if _is_near(result, earlier) else Likeness.OTHER


def likeness_whatever_asked(result: Result, earlier: Result) -> Likeness:
    """Return how alike the results of two calls of a tool with different arguments are. They are near if long
    content differs in times and in few ids and numbers: those of a response, not those of rows."""
    if result.hash == earlier.hash:
        return Likeness.SAME
    if not _may_be_alike(result, earlier, _FEW_TOKENS):
        return Likeness.OTHER
    if result.of_the_call() == earlier.of_the_call():
        return Likeness.SAME
    if without_random_ids(result.of_the_call()) == without_random_ids(earlier.of_the_call()) and result.is_content:
        return Likeness.SAME
    mine, other = (_SCORE.sub("", one.without_times()) for one in (result, earlier))
    changed = set(_WITH_DIGIT.findall(mine)) ^ set(_WITH_DIGIT.findall(other))
    words, other_words = (_WORD.findall(_WITH_DIGIT.sub(_HIDDEN, one)) for one in (mine, other))
    # Where much has a digit, as in rows and prices, these are what it tells.
    is_prose = len(_said(result.frame())) > MIN_CONTENT and DIGITS * len(changed) < 2 * len(words)
    # Hits are the same in another order.
    is_near = is_prose and len(changed) <= 2 * FEW_IDS and sorted(words) == sorted(other_words)
    return Likeness.NEAR if is_near else Likeness.OTHER


def moves_on(results: Iterable[Result]) -> bool:
    """Return whether a number rises or falls from each result to the next, as that of a job that goes on does."""
    columns = [list(pairwise(column)) for column in zip(*(result.numbers() for result in results), strict=False)]
    return any(
        len(steps) > 1
        and (all(before < after for before, after in steps) or all(before > after for before, after in steps))
        for steps in columns
    )


def leaves(arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the values in arguments, each with its path."""
    yield from _leaves(decoded_json(arguments), "", 4)


def _leaves(value: Json, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list):
        inner = list(value.items())[:16] if isinstance(value, dict) else list(enumerate(value[:8]))
        for key, item in inner if depth else ():
            yield from _leaves(item, f"{path}.{key}", depth - 1)
    elif value is not None:
        yield path, str(value)[:MAX_COMPARED]


def without_echoes(text: str, arguments: str) -> str:
    """Return a text without the values of the call's arguments, and the names and paths in them."""
    values = [value for _, value in leaves(arguments) if len(value) > 1]
    names = [name for value in values for name in value.split() if len(name) > 1 and not name.isalpha()]
    for echo in sorted((*values, *names), key=len, reverse=True):
        text = text.replace(echo, _HIDDEN)

    # A part of an argument, such as one column of a statement, stands in quotes.
    quoted = _QUOTED.findall(text)
    for echo in set(quoted).intersection(_WORD.findall(" ".join(values))) if quoted else ():
        text = text.replace(echo, _HIDDEN)
    return text


def without_stack(text: str) -> str:
    """Return an error without the places in the code, which differ where the code does."""
    return _PLACE.sub("", text) if "Traceback (most" in text or "\n    at " in text else text


def without_random_ids(text: str) -> str:
    """Return a text without ids that are new in every response."""
    return _RANDOM_ID.sub(_HIDDEN, text)


def call_key(text: str) -> int:
    """Return a hash that is equal for the same arguments: in any notation, in upper and lower case, with any white
    space, and whatever ids and counters of the call, and reasons for it, stand in them."""
    if len(text) > MAX_DECODED:
        return hash(text)
    if "\\" in text or text.startswith('"') or text.count("{") > 1:
        text = _encoded(decoded_json(text)).replace("\\n", "").strip('"')
    # An object that holds no other is compared field by field without being decoded, which would take longer.
    fields = "".join(text.casefold().split()).strip("{}").split(',"')
    own_fields = [field for field in fields if not _is_field_of_call(field)] or fields
    return hash(tuple(sorted(field.removesuffix(".0").strip(_AROUND) for field in own_fields)))


def _is_field_of_call(field: str) -> bool:
    name, colon, _ = field.partition('":')
    return bool(colon) and is_of_the_call(name.strip('"'), of_arguments=True)


@lru_cache(maxsize=2048)
def is_of_the_call(name: str, *, of_arguments: bool = False) -> bool:
    """Return whether a field of this name tells of the call, such as `request_id` or `attempt`. Those of arguments may
    also say why the call is made."""
    return _OF_THE_CALL.fullmatch(name[:64]) is not None or (of_arguments and name in _REASONS)


def _cut(text: str) -> str:
    if len(text) <= MAX_COMPARED:
        return text
    piece, middle = MAX_COMPARED // 3, len(text) // 2
    return f"{text[:piece]}\n{text[middle : middle + piece]}\n{text[-piece:]}"


def written_json(content: Json) -> str:
    """Return content as text; content that is no text as JSON with its keys in order."""
    return content if isinstance(content, str) else _encoded(content)


def _encoded(content: Json) -> str:
    try:
        return json.dumps(content, ensure_ascii=False, sort_keys=True)
    except (RecursionError, ValueError, TypeError):
        return ""


def _canonical(text: str) -> str:
    """Return a result without its envelopes, and JSON with its keys in order and without white space, so that notation
    makes no difference."""
    content, _ = unwrapped(text)
    return content.strip() if isinstance(content, str) else _encoded(content)


def _said(text: str) -> str:
    """Return a text without the names of fields and what was hidden."""
    return _FIELD_NAME.sub("", text).replace(_HIDDEN, "")


def _hide(field: re.Match[str]) -> str:
    return f"{field['name']}{field['between']}{_HIDDEN}"


def _hide_id(field: re.Match[str]) -> str:
    is_id = _identifies(field["name"]) and any(map(str.isdigit, field["value"]))
    return _hide(field) if is_id else field[0]


@lru_cache(maxsize=2048)
def _identifies(name: str) -> bool:
    return _IDENTIFIES.fullmatch(name) is not None


def _may_be_alike(result: Result, earlier: Result, few: int) -> bool:
    """Return False if two results are so different that they need not be masked."""
    if abs(len(result.text) - len(earlier.text)) > 64 + len(result.text) // 8:
        return False
    mine, others = result.glance(), earlier.glance()
    both = len(mine & others)
    return (len(mine) < _FEW_TOKENS or 3 * both >= len(mine)) and len(mine) - both <= few


def _is_near(result: Result, earlier: Result) -> bool:
    """Return whether two results of the same call differ in ids, in single numbers, or in some words of a long text.

    If most of a text is ids and numbers, these are what it tells.
    """
    mine, other = result.without_ids(), earlier.without_ids()
    named, other_named = (_FIELD.sub(_hide_id, one.without_times()) for one in (result, earlier))
    if named == other_named:
        # Ids may be all that was asked for, as by `next_task`.
        return _WORD.search(result.arguments + _said(named)) is not None
    if mine == other and _WORD.search(result.arguments) and any(map(str.isalpha, _said(mine))):
        return True
    if _NUMBER.sub("0", mine) == _NUMBER.sub("0", other):
        return 2 * len(_said(_NUMBER.sub("", mine))) > len(_said(named))
    return _are_near(mine, other)


def _are_near(text: str, other: str) -> bool:
    """Return whether two long texts are nearly the same. One that has only grown has something new."""
    if min(len(text), len(other)) < MIN_PAGE or text.lstrip()[:1] in ("{", "["):
        return False
    mine, others = _shingles(text), _shingles(other)
    both = len(mine & others)
    has_grown = both == len(others) or both == len(mine)
    return not has_grown and both >= NEAR * len(mine | others)


def _shingles(text: str) -> set[str]:
    letters = " ".join(text.casefold().split())
    return {letters[at : at + SHINGLE] for at in range(len(letters) - SHINGLE + 1)}
