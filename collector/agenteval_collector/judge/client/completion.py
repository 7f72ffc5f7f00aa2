"""Chat completions as JSON: a request's parameters, and what a response says."""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from agenteval_collector.judge.client.lessons import Form
from agenteval_collector.judge.client.port import JudgeRequest, Message

_IN_WORDS = "Reply with one JSON object and nothing else. It follows this JSON schema:\n"


def parameters(request: JudgeRequest, form: Form, model: str) -> dict[str, Any]:
    """What is sent. Tools are never offered."""
    schema = json.loads(json.dumps(request.schema, default=dict))
    sent: dict[str, Any] = {"model": model}
    if form.temperature:
        sent["temperature"] = request.temperature
    if form.format == "schema":
        # The name may have 64 of these characters.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", request.name)[:64]
        described = {"name": name, "strict": True, "schema": schema}
        sent["response_format"] = {"type": "json_schema", "json_schema": described}
        messages = list(request.messages)
    else:
        messages = _with_system(list(request.messages), _IN_WORDS + json.dumps(schema))
    if form.format == "json":
        sent["response_format"] = {"type": "json_object"}
    sent["messages"] = [{"role": message.role, "content": _encodable(message.text)} for message in messages]
    return sent


def _with_system(messages: list[Message], text: str) -> list[Message]:
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].text}\n\n{text}"), *messages[1:]]
    return [Message("system", text), *messages]


def _encodable(text: str) -> str:
    # Spans and responses may hold halves of surrogate pairs, which no UTF-8 can carry.
    return text.encode(errors="replace").decode()


T = TypeVar("T", bound=BaseModel)


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


_MOST_TOKENS = 10_000_000
"""Of one request; a larger usage is none."""


class _Usage(BaseModel):
    prompt_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS, strict=True)
    completion_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS, strict=True)


_MAX_MODEL = 200


class NoCompletion(ValueError):
    """A response is something else than a chat completion: a page, a list, an error.

    `status` is the code of an error in it where that is an HTTP status.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Completion(BaseModel):
    """What a response says, as far as it can be read: hostile input like any other."""

    model: str | None = None
    """Printable, and not long."""
    text: str = ""
    """Empty where the response has no text."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    refused: bool = False
    """The model declined to answer."""
    filtered: bool = False
    """The endpoint cut the answer out."""

    @classmethod
    def read(cls, body: bytes) -> "Completion":
        """A completion that was cut off is one without text. Raises NoCompletion."""
        document = _document(body)
        if document is None:
            return cls()
        choices = document.get("choices")
        if not choices and (error := document.get("error")):
            raise NoCompletion("an error", status=_status(error))
        if "choices" not in document:
            raise NoCompletion("an object without choices")
        choice = _part(_Choice, choices[0]) if isinstance(choices, list) and choices else None
        usage = _part(_Usage, document.get("usage")) or _Usage()
        return cls(
            model=_model(document.get("model")),
            text=(choice.message.content or "") if choice else "",
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            refused=choice is not None and bool(choice.message.refusal),
            filtered=choice is not None and choice.finish_reason == "content_filter",
        )


def _document(body: bytes) -> dict[str, Any] | None:
    """None where it begins as an object and is none in the end."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        if body.lstrip().startswith(b"{"):
            return None
        raise NoCompletion("no JSON") from error
    if not isinstance(document, dict):
        raise NoCompletion(f"a {type(document).__name__}")
    return document


def _status(error: object) -> int | None:
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and re.fullmatch("[0-9]{3}", code):
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _model(name: object) -> str | None:
    if not isinstance(name, str):
        return None
    # Without controls, direction marks, halves of surrogate pairs.
    return "".join(character for character in name[:_MAX_MODEL] if character.isprintable()) or None


def _part(kind: type[T], value: object) -> T | None:
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None
