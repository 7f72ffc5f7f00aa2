"""Read the calls of embedding models: they are no steps of an agent, but cost tokens and money."""

from collections.abc import Iterable, Mapping
from typing import Final

from otel_agenteval.conventions.api_bodies import usage_in
from otel_agenteval.conventions.decoding import first_text
from otel_agenteval.conventions.dialect import Attributes, SpanRole
from otel_agenteval.conventions.money import billed_usd, provider_of
from otel_agenteval.conventions.span_errors import error_type, span_error
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import ModelCall

_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "gen_ai.operation.name": frozenset(("embeddings", "embedding")),
    "openinference.span.kind": frozenset(("EMBEDDING",)),
    "ai.operationId": frozenset(("ai.embed.doEmbed", "ai.embedMany.doEmbed")),
    "llm.request.type": frozenset(("embedding", "embeddings")),
    "langfuse.observation.type": frozenset(("embedding",)),
    "langsmith.span.kind": frozenset(("embedding",)),
    "mlflow.spanType": frozenset(("EMBEDDING", '"EMBEDDING"')),
    "mastra.span.type": frozenset(("embedding", "rag_embedding")),
}
"""The values that say it, by the attribute that says what a span is: GenAI conventions, OpenInference, Vercel,
Traceloop, Langfuse, LangSmith, MLflow, Mastra."""
_MODELS: Final = (
    *("gen_ai.response.model", "gen_ai.request.model", "embedding.model_name", "llm.model_name"),
    *("ai.model.id", "langfuse.observation.model.name"),
)
_TOKENS: Final = (
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.token_count.total"),
    *("ai.usage.tokens", "gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
)
_OTHER_ROLES: Final = (SpanRole.MODEL, SpanRole.TOOL, SpanRole.AGENT)


def embedding_calls(nodes: Iterable[Node]) -> tuple[ModelCall, ...]:
    """Return the calls of embedding models, by start time. Of two spans of one call, the outer one counts."""
    spans = [node for node in nodes if node.role not in _OTHER_ROLES and _is_embedding(node.span.attributes)]
    if not spans:
        return ()
    ids = {node.id for node in spans}
    calls = [_call(node) for node in spans if ids.isdisjoint(outer.id for outer in node.above())]
    return tuple(sorted(calls, key=lambda call: (call.started_at, call.span_id)))


def _is_embedding(attributes: Attributes) -> bool:
    kinds = ((attributes[key], values) for key, values in _KINDS.items() if key in attributes)
    return any(isinstance(kind, str) and kind in values for kind, values in kinds)


def _call(node: Node) -> ModelCall:
    span = node.span
    return ModelCall(
        span_id=node.id,
        model=first_text(span.attributes, *_MODELS),
        agent=node.agent,
        usage=usage_in(span.attributes, _TOKENS, ()),
        provider=provider_of(span.attributes),
        billed_usd=billed_usd(span.attributes),
        error=span_error(span),
        error_type=error_type(span),
        started_at=span.started_at,
        ended_at=max(span.started_at, span.ended_at),
    )
