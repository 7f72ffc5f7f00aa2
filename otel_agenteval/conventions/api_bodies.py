"""Read whole requests to model APIs and their responses: OpenAI's chat completions and Responses, Anthropic's messages,
Gemini's, and APIs like them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

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
    looks_structured,
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
# The parts of input and output, by the names of the conventions and of providers' own bodies. Where the names are from:
# GenAI conventions, OpenInference, Vercel, Pydantic AI, Traceloop, OpenAI, Anthropic, Gemini, Langfuse, LiteLLM.
_CACHE_READ = (
    *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cached_tokens"),
    *(
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
        "gen_ai.usage.details.cache_read_tokens",
    ),
    *("gen_ai.usage.input_tokens.cached", "gen_ai.usage.details.cached_tokens", "gen_ai.usage.cache_read_tokens"),
    *("ai.usage.inputTokenDetails.cacheReadTokens", "cached_tokens", "cache_read_input_tokens", "cachedInputTokens"),
    *("cachedContentTokenCount", "input_cached_tokens", "cache_read", "cached_input_tokens", "cacheReadInputTokens"),
)
_CACHE_WRITE = (
    *("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
    *("llm.token_count.prompt_details.cache_write", "gen_ai.usage.details.cache_write_tokens"),
    *("gen_ai.usage.cache_write_tokens", "gen_ai.usage.cache_write.input_tokens", "cache_creation_input_tokens"),
    *("ai.usage.inputTokenDetails.cacheWriteTokens", "cache_write_tokens", "cache_creation", "cacheWriteInputTokens"),
)
_REASONING = (
    *("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens", "ai.usage.reasoningTokens"),
    *("llm.token_count.completion_details.reasoning", "gen_ai.usage.details.reasoning_tokens", "reasoning_tokens"),
    *(
        "ai.usage.outputTokenDetails.reasoningTokens",
        "reasoningTokens",
        "thoughtsTokenCount",
        "output_reasoning_tokens",
    ),
    *("gen_ai.usage.output_tokens.reasoning", "gen_ai.usage.output_tokens_details.reasoning"),
)
_MODALITIES = {
    "input_audio": (
        *("llm.token_count.prompt_details.audio", "gen_ai.usage.details.input_audio_tokens"),
        *("gen_ai.usage.input_audio_tokens", "gen_ai.usage.details.audio_prompt_tokens", "input_audio_tokens"),
    ),
    "output_audio": (
        *("llm.token_count.completion_details.audio", "gen_ai.usage.details.output_audio_tokens"),
        *("gen_ai.usage.output_audio_tokens", "output_audio_tokens"),
    ),
    "cache_audio_read": ("gen_ai.usage.details.cache_audio_read_tokens", "cache_audio_read_tokens"),
    "input_image": (
        *("llm.token_count.prompt_details.image", "gen_ai.usage.details.image_prompt_tokens"),
        *("gen_ai.usage.input_image_tokens", "input_image_tokens"),
    ),
    "output_image": ("llm.token_count.completion_details.image", "output_image_tokens"),
    "cache_write_1h": (
        *("anthropic.usage.cache_creation.ephemeral_1h_input_tokens", "ephemeral_1h_input_tokens"),
        *("gen_ai.usage.details.ephemeral_1h_input_tokens", "gen_ai.usage.details.cache_write_1h_tokens"),
    ),
}
"""Tokens of other modalities than text, and those that a cache keeps for an hour, which cost more. Where the names are
from: OpenInference, Pydantic AI, OpenAI, Anthropic's SDK."""
_WRITTEN = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""What was written to Anthropic's caches, by the time that they keep it. LangChain counts it only here."""
_OF_ANTHROPIC, _KEPT = "cache_creation", "cache_write_1h"
_IN_DETAILS = {"audio_tokens": "audio", "image_tokens": "image"}
"""Names of modalities in the details of OpenAI's counts, which say by where they stand whether they were sent."""
_DETAILS = (
    *("input_tokens_details", "prompt_tokens_details", "inputTokenDetails", "input_token_details"),
    *("output_tokens_details", "completion_tokens_details", "outputTokenDetails", "output_token_details"),
)
_OTHER_PARTS = frozenset(
    (_OF_ANTHROPIC, *_CACHE_READ, *_CACHE_WRITE, *_REASONING, *_DETAILS, *chain(*_MODALITIES.values()))
)
_BESIDE_INPUT = frozenset(("cache_read_input_tokens", "cache_creation_input_tokens"))
MOST_TOKENS = 100_000_000
"""The most tokens that one call can have had: ten times the largest context of any model."""
# Digits of a number of tokens that was recorded as text or as a double.
_LONGEST_COUNT = 15


def read_call(facts: SpanFacts, value: Json, returned: Json) -> None:
    """Fill in the facts of a model call from its recorded request and response."""
    facts.input = Content(lambda: request(value), cut=is_cut(value))
    facts.output = Content(lambda: response(returned), cut=is_cut(returned))
    facts.finish_reason = finish_reason(returned)


def request(recorded: Json) -> Sequence[Item]:
    """Decode the messages in a recorded request, its system instructions first."""
    return _sent(decoded(recorded))


def response(recorded: Json) -> Sequence[Item]:
    """Decode the messages in a recorded response; of several choices the first."""
    return _reply(decoded(recorded))


def tools(recorded: Json) -> Json:
    """Return the tool definitions of a recorded request; None without any, or if the request was cut."""
    body = decode_structure(recorded) if isinstance(recorded, str) and '"tools"' in recorded else recorded
    return object_in(body).get("tools") or None


def usage(recorded: Json) -> Usage | None:
    """Return the tokens that an object counts, by the names of any API; None if it counts none."""
    return usage_in(object_in(decode_structure(recorded)), _INPUT_TOKENS, _OUTPUT_TOKENS)


def described(recorded: Json) -> dict[str, Json]:
    """Return the fields of a recorded response that tell of the call: its own, else those of its first reply."""
    body = object_in(decode_structure(recorded))
    reply = next(iter(objects_in(body.get("replies"))), {})
    return body if "usage" in body else object_in(reply.get("meta")) or next(iter(objects_in(body.get("meta"))), body)


def usage_in(counts: Mapping[str, Json], inputs: Iterable[str], outputs: Iterable[str]) -> Usage | None:
    """Return the tokens that `counts` has, each under the first of its names that is there; None without either."""
    received, answered = _count(counts, inputs), _count(counts, outputs)
    if received is None and answered is None:
        return None
    if _OTHER_PARTS.isdisjoint(counts):
        return Usage(input_tokens=received, output_tokens=answered)
    details = [counts, *(part for key in (*_DETAILS, _OF_ANTHROPIC) if isinstance(part := counts.get(key), dict))]
    read, cache_write, reasoning = (
        next((count for detail in details if (count := _count(detail, names)) is not None), None)
        for names in (_CACHE_READ, _CACHE_WRITE, _REASONING)
    )
    by_time = sum(_whole(detail.get(name)) or 0 for detail in details for name in _WRITTEN)
    cache_write = cache_write or by_time or cache_write
    cached = (read or 0) + (cache_write or 0)
    # Anthropic's own body counts them beside its input. So does any input that is too small to contain them.
    if received is not None and cached and (received < cached or not _BESIDE_INPUT.isdisjoint(counts)):
        received += cached
    return Usage(
        input_tokens=received,
        output_tokens=answered,
        cache_read_tokens=read,
        cache_write_tokens=cache_write,
        reasoning_tokens=reasoning,
        other=_other(counts, details, cache_write or 0),
    )


def _other(counts: Mapping[str, Json], details: Sequence[Mapping[str, Json]], written: int) -> dict[str, int]:
    """Return the tokens of other modalities, and those of `written` ones that are kept for an hour, if not 0."""
    found = {kind: count for kind, names in _MODALITIES.items() if (count := _count(counts, names))}
    kept = next((count for detail in details if (count := _count(detail, _MODALITIES[_KEPT]))), 0)
    if 0 < kept <= written:
        found[_KEPT] = kept
    else:
        found.pop(_KEPT, None)
    for key in _DETAILS:
        if isinstance(detail := counts.get(key), dict):
            way = "output" if key.startswith(("output", "completion")) else "input"
            for name, modality in _IN_DETAILS.items():
                if count := _whole(detail.get(name)):
                    found.setdefault(f"{way}_{modality}", count)
    return found


def _count(counts: Mapping[str, Json], names: Iterable[str]) -> int | None:
    for name in names:
        if name in counts and (count := _whole(counts[name])) is not None:
            return count
    return None


def _whole(count: Json) -> int | None:
    """Return a number of tokens. Some libraries record it as text or with a fraction of zero."""
    if (isinstance(count, str) and count.isdecimal() and len(count) <= _LONGEST_COUNT) or (
        isinstance(count, float) and count.is_integer() and abs(count) < 10**_LONGEST_COUNT
    ):
        count = int(count)
    # Some clients subtract one count from another and come below 0. No model takes as many as the limit.
    is_possible = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS
    return count if is_possible else None  # type: ignore[return-value]


def finish_reason(recorded: Json) -> str | None:
    """Return why the model ended the first reply in a recorded response; None if the response does not say."""
    # The reason stands in many places, but under few names, so the text is searched and not decoded. Quotes in what a
    # model wrote are escaped, and not mistaken for such a name.
    match = _FINISH_REASON.search(recorded) if isinstance(recorded, str) else None
    return match[1] or _COMPLETED if match else None


def decoded(recorded: Json) -> Json:
    """Return the value of recorded JSON text, of a cut text what remains (or None). Other text stays as it is."""
    value = decode_value(recorded)
    return None if is_cut(value) else value


def _sent(body: Json) -> list[Item]:
    if not isinstance(body, dict):
        return _said(body, USER)
    system = body.get("system", body.get("instructions", object_in(body.get("config")).get("system_instruction")))
    messages = next((body[key] for key in ("messages", "input", "prompt", "contents") if key in body), None)
    if messages is None and read_message(body):
        messages = body
    return [*_said(system, SYSTEM), *_said(messages, USER)]


def _reply(body: Json) -> list[Item]:
    if isinstance(body, dict):
        if isinstance(choices := body.get("choices"), list):
            return [choice.get("message") for choice in objects_in(choices[:1])]
        if isinstance(candidates := body.get("candidates"), list):  # Gemini.
            return [candidate.get("content") for candidate in objects_in(candidates[:1])]
        if isinstance(batches := body.get("generations"), list):
            return [item.get("message", item) for item in objects_in(_first_batch(batches)[:1])]
        # The Responses API, Haystack, Genkit.
        for key in ("output", "replies", "message"):
            if key in body:
                return _said(body[key], ASSISTANT)
    return _said(body, ASSISTANT)


def _first_batch(value: list[Json]) -> list[Json]:
    """Return the first list of a list of lists, in which LangChain records what it sends; else `value` itself."""
    return value[0] if value and isinstance(value[0], list) else value


def _said(value: Json, role: str) -> list[Item]:
    if isinstance(value, list):
        return [*_first_batch(value)]
    if isinstance(value, dict):
        return [value]
    text = known_text(value)
    # What was meant to be a structure and cannot be read, nobody said.
    return [ChatMessage(role=role, texts=[text])] if text and not looks_structured(text) else []
