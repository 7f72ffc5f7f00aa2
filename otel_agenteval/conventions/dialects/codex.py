"""Codex's own spans (table `[otel]` of its configuration). It exports its internal tree, and few of the spans tell
anything of the work: a turn, and of the pieces of each streamed response the one with its tokens.

What was said stands in log records, and only the user's words.
"""

from collections.abc import Sequence

from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, SpanFacts, SpanRole
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.conventions.table_dialect import FactKeys, TableDialect

_TURN = "session_task.turn"
_SPAN_NAMES = {_TURN: SpanRole.AGENT, "handle_responses": SpanRole.MODEL}


def _agent_of_turn(name: str, attributes: Attributes) -> str | None:
    return "codex" if name == _TURN else None


class Codex(TableDialect):
    """Turns and responses, by the names of their spans."""

    name = "codex"
    rank = 190
    content_switch = "set log_user_prompt = true under [otel] in Codex's config.toml"
    span_names = _SPAN_NAMES
    keys = AttributeKeys(agent_of=(_agent_of_turn,), sessions=("conversation.id",))
    facts = FactKeys(
        models=("model",),
        tokens={
            "gen_ai.usage.input_tokens": "input_tokens",
            "gen_ai.usage.output_tokens": "output_tokens",
            "gen_ai.usage.cache_read.input_tokens": "cached_tokens",
        },
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        facts = super().read(span, logs)
        if facts.role is SpanRole.MODEL and facts.usage is None:
            facts.role = None
        return facts
