"""Read whole requests to model APIs and their responses: OpenAI's chat completions and Responses, Anthropic's messages,
and APIs like them."""

import re
from collections.abc import Iterable, Mapping, Sequence

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import (
    decode_structure,
    decode_value,
    is_cut,
    known_text,
    object_in,
    objects_in,
)
from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.messages import (
    ASSISTANT,
    SYSTEM,
    USER,
    ChatMessage,
    Item,
    read_message,
)
from otel_agenteval.model import Json, Usage

_INPUT_TOKENS = ("input_tokens", "prompt_tokens", "input", "inputTokens", "promptTokens")
_FINISH_REASON = re.compile(
    r'(?<!\\)"(?:finish_reason|finishReason|stop_reason|incomplete_details)"\s*:\s*'
    r'(?:(?:\{\s*"reason"\s*:\s*)?"([^"\\]{1,64})"|(?<=incomplete_details":)\s*null)'
)
# The status of a whole reply in the Responses API, which gives no other reason.
_COMPLETED = "completed"
_OUTPUT_TOKENS = ("output_tokens", "completion_tokens", "output", "outputTokens", "completionTokens")
# Digits of a number of tokens that was recorded as text or as a double.
_LONGEST_COUNT = 15


def read_call(facts: SpanFacts, given: Json, returned: Json) -> None:
    """Fill in the facts of a model call from its recorded request and response."""
    facts.input = Content(lambda: request(given), cut=is_cut(given))
    facts.output = Content(lambda: response(returned), cut=is_cut(returned))
    facts.finish_reason = finish_reason(returned)


def request(recorded: Json) -> Sequence[Item]:
    """Decode the messages in a recorded request, its system instructions first."""
    return _sent(decoded(recorded))


def response(recorded: Json) -> Sequence[Item]:
    """Decode the messages in a recorded response; of several choices the first."""
    return _reply(decoded(recorded))


def tools(recorded: Json) -> Json:
    """Return the tool definitions of a recorded request; None without any, or where the request was cut."""
    body = decode_structure(recorded) if isinstance(recorded, str) and '"tools"' in recorded else recorded
    return object_in(body).get("tools") or None


def usage(recorded: Json) -> Usage | None:
    """Return the tokens that an object counts, by the names of any API; None where it counts none."""
    return usage_in(object_in(decode_structure(recorded)), _INPUT_TOKENS, _OUTPUT_TOKENS)


def usage_in(counts: Mapping[str, Json], inputs: Iterable[str], outputs: Iterable[str]) -> Usage | None:
    """Return the tokens that `counts` has, each under the first of its names that is there; None without either."""
    received, answered = _count(counts, inputs), _count(counts, outputs)
    if received is None and answered is None:
        return None
    return Usage(input_tokens=received or 0, output_tokens=answered or 0)


def _count(counts: Mapping[str, Json], names: Iterable[str]) -> int | None:
    for name in names:
        if (count := _whole(counts.get(name))) is not None:
            return count
    return None


def _whole(count: Json) -> int | None:
    """Return a number of tokens. Some libraries record it as text or with a fraction of zero."""
    if isinstance(count, str) and count.isdecimal() and len(count) <= _LONGEST_COUNT:
        return int(count)
    if isinstance(count, float) and count.is_integer() and abs(count) < 10**_LONGEST_COUNT:
        return int(count)
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def finish_reason(recorded: Json) -> str | None:
    """Return why the model ended the first reply in a recorded response; None where the response does not say."""
    # The reason stands in many places, but under few names, so the text is searched and not decoded. Quotes in what a
    # model wrote are escaped, and not mistaken for such a name.
    found = _FINISH_REASON.search(recorded) if isinstance(recorded, str) else None
    return found[1] or _COMPLETED if found else None


def decoded(recorded: Json) -> Json:
    """Return the value of recorded JSON text, of a cut text what remains (or None). Other text stays as it is."""
    value = decode_value(recorded)
    return None if is_cut(value) else value


def _sent(body: Json) -> list[Item]:
    if not isinstance(body, dict):
        return _said(body, USER)
    system = body.get("system", body.get("instructions"))
    messages = next((body[key] for key in ("messages", "input", "prompt") if key in body), None)
    if messages is None and read_message(body):
        messages = body
    return [*_said(system, SYSTEM), *_said(messages, USER)]


def _reply(body: Json) -> list[Item]:
    if isinstance(body, dict):
        if isinstance(choices := body.get("choices"), list):
            return [choice.get("message") for choice in objects_in(choices[:1])]
        if "output" in body:
            return _said(body["output"], ASSISTANT)
    return _said(body, ASSISTANT)


def _said(value: Json, role: str) -> list[Item]:
    if isinstance(value, list | dict):
        return [*value] if isinstance(value, list) else [value]
    text = known_text(value)
    return [ChatMessage(role=role, texts=[text])] if text else []
