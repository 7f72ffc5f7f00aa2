"""Chat completions from the server's side: what was asked, and the JSON of an answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.judge.behaviours import Behaviour, Content, disturb
from tests.support.judge.filling import Schema, find_schema


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came; header names are in lower case. `schema` is None where the request has none."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]
    schema: Schema | None

    @property
    def text(self) -> str:
        """Its messages, one after the other."""
        return "\n\n".join(str(message.get("content")) for message in self.body.get("messages", ()))

    @property
    def data(self) -> Any:
        """The data that it is asked about."""
        return json.loads(self.text.rsplit("\n</data-", 1)[0].rsplit("\n", 1)[1])


def answer(received: Received, behaviour: Behaviour, text: str) -> tuple[int, bytes]:
    """Status and body of an answer with this text, or of the error that `behaviour` wants."""
    if behaviour.body is not None:
        return behaviour.status, behaviour.body
    if behaviour.status != 200:
        return behaviour.status, error_body(f"status {behaviour.status}", code=behaviour.error_code)
    form = received.body.get("response_format", {}).get("type")
    if form in behaviour.refuses:
        return 400, error_body(f"Invalid parameter: 'response_format' of type '{form}' is not supported.")
    if "temperature" in behaviour.refuses and "temperature" in received.body:
        return 400, error_body("Unsupported value: 'temperature' does not support this value with this model.")
    return 200, json.dumps(_completion(received, behaviour, disturb(text, behaviour.content))).encode()


def schema_of(request: Mapping[str, Any]) -> Schema | None:
    """The schema that a request asks to follow: in its response_format, else written out in a message."""
    asked = request.get("response_format", {})
    if asked.get("type") == "json_schema":
        return asked["json_schema"]["schema"]
    texts = (str(message.get("content")) for message in request.get("messages", ()))
    return next((schema for text in texts if (schema := find_schema(text))), None)


def _completion(received: Received, behaviour: Behaviour, text: str) -> dict[str, Any]:
    content = behaviour.content
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if content in (Content.MISSING, Content.REFUSAL):
        message["content"] = None
    if content is Content.REFUSAL:
        message["refusal"] = "I cannot help with that."
    finish = {Content.TRUNCATED: "length", Content.FILTERED: "content_filter"}.get(content, "stop")
    completion: dict[str, Any] = {
        "id": "chatcmpl-local",
        "object": "chat.completion",
        "created": 0,
        "model": behaviour.model or received.body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if content is Content.NO_CHOICES:
        completion["choices"] = []
    if behaviour.usage:
        asked, answered = behaviour.tokens or (len(received.text) // 4 + 1, len(text) // 4 + 1)
        completion["usage"] = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    return completion


def error_body(message: str, *, code: str | int | None = None) -> bytes:
    """An error as the protocol has it."""
    return json.dumps({"error": {"message": message, "type": "error", "param": None, "code": code}}).encode()
