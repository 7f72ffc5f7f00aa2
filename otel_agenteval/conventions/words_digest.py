"""A digest of the words of a conversation, built message by message."""

import json
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from typing import Final

from otel_agenteval.conventions.messages import ASSISTANT, USER, ChatMessage, ToolRequest

_SIZE: Final = 16
"""Bytes of a digest."""
# Made once: `json.dumps` makes one for each text.
_json: Final = json.JSONEncoder(sort_keys=True).encode


class WordsDigest:
    """Digests the words of a conversation, message by message. Replies in a row are parts of one reply."""

    def __init__(self) -> None:
        self._spoken = blake2b(digest_size=_SIZE)
        self._texts: list[str] = []
        self._requests: list[ToolRequest] = []
        self._is_reply = False

    def copy(self) -> "WordsDigest":
        """Return a digest of the same words, to which other messages can be added."""
        other = WordsDigest()
        other._spoken, other._is_reply = self._spoken.copy(), self._is_reply
        other._texts, other._requests = self._texts.copy(), self._requests.copy()
        return other

    def add(self, message: ChatMessage) -> None:
        """Add a message."""
        if message.role == ASSISTANT:
            self._is_reply = True
            self._texts += message.texts
            self._requests += message.requests
            return
        self._close()
        if message.texts:
            self._say("" if message.role == USER else message.role, "".join(message.texts))
        for response in message.responses:
            self._say("result", _json(response.result))

    def digest(self) -> bytes:
        """Return the digest of all messages that were added."""
        self._close()
        return digest_of("said", self._spoken.hexdigest())

    def _close(self) -> None:
        if self._requests:
            self._say("calls", json.dumps(sorted(map(_written, self._requests))))
        elif self._is_reply:
            # Parts of a reply are joined in many ways, and blanks at its end are often stripped.
            self._say(ASSISTANT, "".join("".join(self._texts).split()))
        self._is_reply, self._texts, self._requests = False, [], []

    def _say(self, role: str, text: str) -> None:
        self._spoken.update(f"{role}\0{len(text)}\0{text}".encode("utf-8", "surrogatepass"))


def _written(request: ToolRequest) -> str:
    return _json([request.call_id, request.name, request.arguments or None])


def digest_of(*texts: str) -> bytes:
    """Return the digest of a list of texts."""
    # What `json.dumps` writes of a list of texts. It takes ten times as long to prepare for any value.
    written = ", ".join(map(encode_basestring_ascii, texts))
    return blake2b(f"[{written}]".encode(), digest_size=_SIZE).digest()
