"""The parts of a chat completion that a judge needs, as far as they can be read: hostile input like any other.

The openai client builds its types without checking them, so that any part may be missing or of another type.
"""

from dataclasses import dataclass
from typing import Final, Literal

from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

MAX_TOKENS: Final = 10_000_000
"""Tokens of one request; a larger usage is none."""
MAX_MODEL: Final = 200
"""Characters of a model's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A completion; `declined`: the model declined to answer, or the endpoint cut the answer out."""

    model: str | None = None
    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    declined: Literal["refusal", "content_filter"] | None = None


def read(answer: object) -> Completion | None:
    """Read what the openai client made of a response; None where that is no completion: a page, a list, an error."""
    if not isinstance(answer, ChatCompletion) or getattr(answer, "choices", None) is None:
        return None
    text, declined = _said(answer)
    return Completion(
        model=_model(getattr(answer, "model", None)),
        text=text,
        input_tokens=_tokens(answer, "prompt_tokens"),
        output_tokens=_tokens(answer, "completion_tokens"),
        declined=declined,
    )


def _said(answer: object) -> tuple[str, Literal["refusal", "content_filter"] | None]:
    match answer:
        case ChatCompletion(choices=[Choice(message=ChatCompletionMessage() as message) as choice, *_]):
            content = getattr(message, "content", None)
            text = content if isinstance(content, str) else ""
            if getattr(message, "refusal", None):
                return text, "refusal"
            return text, "content_filter" if getattr(choice, "finish_reason", None) == "content_filter" else None
    return "", None


def _tokens(answer: object, kind: str) -> int | None:
    count = getattr(getattr(answer, "usage", None), kind, None)
    # True is an int to Python.
    return count if type(count) is int and 0 <= count <= MAX_TOKENS else None


def _model(name: object) -> str | None:
    if not isinstance(name, str):
        return None
    # Without controls, direction marks, halves of surrogate pairs.
    return "".join(character for character in name[:MAX_MODEL] if character.isprintable()) or None
