"""Read the question of a model call from its span: the last message, and how the conversation begins.

No conversation is decoded: a history is long, and most often nobody needs it. Roles are searched in the JSON text from
both ends. Quotes inside a JSON string are escaped, so content is not mistaken for a role.
"""

import itertools
import json
import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final

from otel_agenteval.conventions.dialect import Attributes, IndexedMessages
from otel_agenteval.conventions.registry import KEYS
from otel_agenteval.model import ModelQuestion
from otel_agenteval.semconv import GEN_AI_SYSTEM_INSTRUCTIONS

MAX_EXCERPT: Final = 1800
"""Characters of a message that are compared, together with its length. Half of them are from its end."""

MAX_MESSAGES: Final = 64
"""Messages from either end that are looked at."""

MAX_BEFORE_OWN: Final = 8
"""Messages after the first one that are searched for a message of the model's own."""

_INDEXED: Final = tuple((indexed.field(0, "role"), indexed) for indexed in KEYS.indexed_messages)
_PIECE: Final = 64 * 1024
"""Characters that are encoded at a time, so that no long text is copied as a whole."""
_DIGEST: Final = 16
"""Bytes of a digest."""
_MARK: Final = '"role"'
_ROLE: Final = re.compile(r'"role"\s*:\s*"([\w-]{1,40})"')
_DECODER: Final = json.JSONDecoder()
_STRUCTURE: Final = " \t\r\n{}[],"
_OWN: Final = frozenset(("assistant", "ai", "model", "tool-call"))
_USERS: Final = frozenset(("user", "human"))
# Some APIs give results of tools in messages of the user. Quotes in what somebody wrote are escaped.
_RESULT: Final = re.compile(
    r'"(?:tool_call_response|tool[-_]result|toolResult|function_call_output|function_response|functionResponse)"'
)
_INSTRUCTIONS: Final = frozenset(("system", "developer"))

_Found = re.Match[str]
_Message = tuple[str, str]
"""A role and the text of its message, as it is written."""


def question_of(attributes: Attributes) -> ModelQuestion | None:
    """Return the question that the model of this span was asked; None if none was recorded in a known form."""
    first, last = _messages(attributes)
    found = _newest(last)
    if found is None:
        return None
    role, newest = found
    said_first = ((role, text) for role, text in first if role not in _INSTRUCTIONS)
    _, opening = next(said_first, ("", newest))
    has_spoken = any(role in _OWN for role, _ in islice(said_first, MAX_BEFORE_OWN))
    is_users = role in _USERS and _RESULT.search(newest) is None
    return ModelQuestion(excerpt(newest), excerpt(opening) if has_spoken else None, is_users)


def newest_of(attributes: Attributes) -> str | None:
    """Return the `newest` of `question_of`, without searching how the conversation begins."""
    newest = _newest(_messages(attributes)[1])
    return None if newest is None else excerpt(newest[1])


def sent_of(attributes: Attributes) -> bytes | None:
    """Return a fingerprint of all that the model was sent, except its own words; None if nothing was recorded."""
    if next(_messages(attributes)[1], None) is None:
        return None
    digests = {_digest(text) for text in _sent(attributes)}
    return blake2b(b"".join(sorted(digests)), digest_size=_DIGEST).digest()


def excerpt(message: str) -> str:
    """Return the part of a message that is compared."""
    if len(message) <= MAX_EXCERPT:
        return message
    half = MAX_EXCERPT // 2
    return f"{message[:half]}{message[-half:]}{len(message)}"


def _sent(attributes: Attributes) -> Iterator[str]:
    """Yield the texts of instructions, and of the messages that the model did not write."""
    if isinstance(system := attributes.get(GEN_AI_SYSTEM_INSTRUCTIONS), str):
        yield system
    if (indexed := _indexed_in(attributes)) is not None:
        yield from _indexed_contents(attributes, indexed)
        return
    text = next(text for key in KEYS.messages if isinstance(text := attributes.get(key), str))
    first_role, last_role = _role_after(text, 0), _role_before(text, len(text))
    if first_role is None or last_role is None:
        return
    if _is_first_field(text, first_role):
        yield text[: first_role.start()].strip(_STRUCTURE)
        yield text[_end(text, last_role.start()) :].strip(_STRUCTURE)
    else:
        yield text[last_role.end() :].strip(_STRUCTURE)
    yield from (utterance for role, utterance in _forwards(text) if role not in _OWN)


def _indexed_in(attributes: Attributes) -> IndexedMessages | None:
    for first, indexed in _INDEXED:
        if first in attributes:
            return indexed
    return None


def _indexed_contents(attributes: Attributes, indexed: IndexedMessages) -> Iterator[str]:
    """Yield all texts in the contents of messages. In some APIs a message has several."""
    for key, attribute in attributes.items():
        if isinstance(attribute, str) and key.startswith(indexed.prefix):
            index, _, field = key.removeprefix(indexed.prefix).partition(indexed.infix)
            if field.startswith("content") and str(attributes.get(indexed.field(index, "role"))) not in _OWN:
                yield attribute


def _digest(text: str) -> bytes:
    digest = blake2b(digest_size=_DIGEST)
    for start in range(0, len(text), _PIECE):
        digest.update(text[start : start + _PIECE].encode("utf-8", "surrogatepass"))
    return digest.digest()


def _newest(last: Iterator[_Message]) -> _Message | None:
    return next((text for text in last if text[0] not in _OWN and text[0] not in _INSTRUCTIONS), None)


def _messages(attributes: Attributes) -> tuple[Iterator[_Message], Iterator[_Message]]:
    """Return the messages twice: from the first one on, and from the last one back."""
    if (indexed := _indexed_in(attributes)) is not None:
        count = next(n for n in itertools.count(1) if indexed.field(n, "role") not in attributes)
        first, last = range(min(count, MAX_MESSAGES)), range(count - 1, max(-1, count - 1 - MAX_MESSAGES), -1)
        return (
            (_indexed(attributes, indexed, n) for n in first),
            (_indexed(attributes, indexed, n) for n in last),
        )
    for key in KEYS.messages:
        if isinstance(text := attributes.get(key), str):
            return islice(_forwards(text), MAX_MESSAGES), _backwards(text)
    return iter(()), iter(())


def _indexed(attributes: Attributes, indexed: IndexedMessages, number: int) -> _Message:
    message = indexed.field(number, "")
    texts = (texts for name in indexed.contents if isinstance(texts := attributes.get(message + name), str))
    return str(attributes[f"{message}role"]), next(texts, "")


def _forwards(text: str) -> Iterator[_Message]:
    at = _role_after(text, 0)
    while at is not None:
        after = _role_after(text, at.end())
        yield at[1], _written(text, at, after)
        at = after


def _backwards(text: str) -> Iterator[_Message]:
    after, at = None, _role_before(text, len(text))
    for _ in range(MAX_MESSAGES):
        if at is None:
            return
        yield at[1], _written(text, at, after)
        after, at = at, _role_before(text, at.start())


def _written(text: str, at: _Found, after: _Found | None) -> str:
    """Return the text of the message whose role stands at `at`. `after` is the role of the next message.

    The text stands behind the role if the role is the first field of the message, else before it.
    """
    start = at.start()
    if _is_first_field(text, at):
        return text[at.end() : after.start() if after else _end(text, start)].strip(_STRUCTURE)
    before = _role_before(text, start)
    return text[before.end() if before else 0 : start].strip(_STRUCTURE)


def _is_first_field(text: str, at: _Found) -> bool:
    return text[max(0, at.start() - 2) : at.start()].strip().endswith("{")


def _end(text: str, start: int) -> int:
    """Return where the last message ends. In the body of a request, other fields may follow it."""
    if text.startswith("["):
        return len(text)
    try:
        return _DECODER.raw_decode(text, text.rindex("{", 0, start))[1]
    except (ValueError, RecursionError):
        return len(text)


def _role_after(text: str, start: int) -> _Found | None:
    content = None
    while content is None and (start := text.find(_MARK, start)) >= 0:
        content = _ROLE.match(text, start)
        start += len(_MARK)
    return content


def _role_before(text: str, end: int) -> _Found | None:
    content = None
    while content is None and (end := text.rfind(_MARK, 0, end)) >= 0:
        content = _ROLE.match(text, end)
    return content
