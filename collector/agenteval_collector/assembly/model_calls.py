"""Tell model calls whose content may come in log records from those that have it with them."""

from typing import Final

from otel_agenteval.semconv import GEN_AI_OPERATION_NAME

MODEL_CALLS: Final = frozenset({"chat", "text_completion", "generate_content"})
"""Operations whose content may be in log records."""

_OPERATION = GEN_AI_OPERATION_NAME.encode()
# Names of attributes and events that hold content, of every dialect that is read, the most frequent ones first. The
# last is no word of its own: it stands with its length before it, as in a serialized key.
_CONTENT = (
    b"gen_ai.input.messages", b"gen_ai.output.messages", b"gen_ai.prompt", b"gen_ai.completion", b"gen_ai.choice",
    b"gen_ai.content.", b"gen_ai.event.content", b"gen_ai.client.inference.operation.details", b"gen_ai.user.message",
    b"input.value", b"output.value", b"llm.input_messages", b"llm.output_messages", b"llm.openai.messages",
    b"traceloop.entity.", b"ai.prompt", b"ai.response.text", b"ai.response.object", b"ai.response.toolCalls",
    b"langfuse.observation.input", b"langfuse.observation.output", b"mlflow.spanInputs", b"mlflow.spanOutputs",
    b"gcp.vertex.agent.llm_re", b"all_messages", b"request_data", b"response_data", b"\n\x06events",
)  # fmt: skip


def lacks_content(raw: bytes) -> bool:
    """Return whether a model call, a serialized span, has no content; False where it does not name its operation."""
    # Searching bytes is far cheaper than walking attributes.
    for name in _CONTENT:
        if name in raw:
            return False
    return _OPERATION in raw
