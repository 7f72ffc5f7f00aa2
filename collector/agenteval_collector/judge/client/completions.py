"""Write a request as a chat completion in one of several forms, and read the response.

Endpoints refuse parts of the richest form, so there are plainer forms. The openai client builds its types without
checking them. So any part of a response may be missing or have another type. It is hostile input like any other.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from agenteval_collector.judge.ports import JudgeReply, JudgeRequest, Message
from otel_agenteval.internal.text import storable

Format: TypeAlias = Literal["schema", "json", "text"]
"""The way the reply's shape is asked for: by a strict schema, by JSON mode, or by words alone.

JSON mode and words have the schema written out.
"""

_PLAINER: Final[dict[Format, Format]] = {"schema": "json", "json": "text"}
_READ: Final = 20_000
"""Characters of a refusal that are looked at. Some endpoints quote the whole request."""
_ABOUT_FORM: Final = frozenset({400, 415, 422, 501})
"""Endpoints refuse a form with these statuses, often without mentioning it."""
_WHERE_NAMED: Final = frozenset({403, 404, 500, 503})
"""Other endpoints refuse a form with these statuses. They mean something else unless the body names the form."""
_FORMAT = re.compile(
    r"response.?format|schema|json.?(object|mode|output)|structured|grammar|guided|constrain|not.implemented",
    re.IGNORECASE,
)
_ELSE = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|max(imum)?.?(\w{1,20}.)?tokens|token limit"
    r"|api.?key|credential|model.?not.?found|model\b.{0,80}not exist|content.?(policy|management|filter)",
    re.IGNORECASE,
)
"""Words of a refusal that a plainer form would not help with."""
_IN_WORDS: Final = "Reply with one JSON object and nothing else. It follows this JSON schema:\n"

MAX_MODEL: Final = 200
"""Characters of a model's name."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of a request. The default is the richest one."""

    format: Format = "schema"
    temperature: bool = True


def refuses_format(status: int, body: str) -> bool:
    """Return whether an error's body names the format of the reply as its cause."""
    return status >= 400 and _ELSE.search(body[:_READ]) is None and _FORMAT.search(body[:_READ]) is not None


def plainer(form: Form, status: int, body: str) -> Form | None:
    """Return the form to try after a refusal.

    Return None if no plainer form is left, or if the refusal is about something else.
    """
    body = body[:_READ]
    names_format = _FORMAT.search(body) is not None
    if _ELSE.search(body) or not (status in _ABOUT_FORM or (status in _WHERE_NAMED and names_format)):
        return None
    names_temperature = "temperature" in body.lower() and not names_format
    if form.format in _PLAINER and not (names_temperature and form.temperature):
        return replace(form, format=_PLAINER[form.format])
    return replace(form, temperature=False) if form.temperature and status in _ABOUT_FORM else None


def parameters(request: JudgeRequest, form: Form, model: str) -> dict[str, Any]:
    """Make the parameters of a chat completion. Tools are never offered."""
    # The client cannot write a mapping that is no dict as JSON. So every mapping is made a dict first.
    schema = json.loads(json.dumps(request.schema, default=dict))
    system, *rest = request.messages
    sent: dict[str, Any] = {"model": model}
    if form.temperature:
        sent["temperature"] = request.temperature
    if form.format == "schema":
        # The protocol allows a name 64 of these characters.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", request.name)[:64]
        described = {"name": name, "strict": True, "schema": schema}
        sent["response_format"] = {"type": "json_schema", "json_schema": described}
    else:
        system = Message("system", f"{system.text}\n\n{_IN_WORDS}{json.dumps(schema)}")
    if form.format == "json":
        sent["response_format"] = {"type": "json_object"}
    sent["messages"] = [{"role": message.role, "content": storable(message.text)} for message in (system, *rest)]
    return sent


def read(answer: object, asked_model: str) -> JudgeReply | None:
    """Read the openai client's version of a response.

    Return None if that is no completion, such as a page, a list or an error. The token counts are those that it claims.
    """
    if not isinstance(answer, ChatCompletion) or getattr(answer, "choices", None) is None:
        return None
    text, declined = "", None
    match answer:
        case ChatCompletion(choices=[Choice(message=ChatCompletionMessage() as message) as choice, *_]):
            content = getattr(message, "content", None)
            text = content if isinstance(content, str) else ""
            filtered = "content_filter" if getattr(choice, "finish_reason", None) == "content_filter" else None
            declined = "refusal" if getattr(message, "refusal", None) else filtered
    return JudgeReply(
        text=text,
        model=_model(getattr(answer, "model", None)) or asked_model,
        input_tokens=_tokens(answer, "prompt_tokens"),
        output_tokens=_tokens(answer, "completion_tokens"),
        declined=declined,
    )


def _tokens(answer: object, kind: str) -> int | None:
    count = getattr(getattr(answer, "usage", None), kind, None)
    # A bool is an int to `isinstance`, so the type is compared.
    return count if type(count) is int else None


def _model(name: object) -> str | None:
    if not isinstance(name, str):
        return None
    # This drops controls, direction marks and lone surrogates.
    return "".join(character for character in name[:MAX_MODEL] if character.isprintable()) or None
