"""Claude Code's own spans (https://code.claude.com/docs/en/monitoring-usage), a beta.

Of what was said it records the user's words, if it is told to; answers stand in log records. The span within a tool
call says whether it worked. The input of a model call does not include the cached tokens, as in Anthropic's API.
"""

from collections.abc import Sequence

from otel_agenteval.conventions.decoding import known_text
from otel_agenteval.conventions.dialect import AttributeKeys, Attributes, SpanFacts, SpanRole
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.conventions.table_dialect import FactKeys, TableDialect

_AGENT = "claude-code"
_INTERACTION = "interaction"
_ROLES = {
    _INTERACTION: SpanRole.AGENT,
    "llm_request": SpanRole.MODEL,
    "tool": SpanRole.TOOL,
    "tool.execution": SpanRole.TOOL,
}
_SPAN_NAMES = {f"claude_code.{kind}": role for kind, role in _ROLES.items()}
_TOOL = "tool_name"
_OUTPUT_EVENT, _OUTPUT = "tool.output", "output"


def _run_of_claude_code(name: str, attributes: Attributes) -> str | None:
    return _AGENT if name == f"claude_code.{_INTERACTION}" else None


class ClaudeCode(TableDialect):
    """Spans with one of Claude Code's names."""

    name = "claude_code"
    rank = 170
    content_switch = "set OTEL_LOG_USER_PROMPTS=1, OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1 in the agent"
    span_names = _SPAN_NAMES
    keys = AttributeKeys(agent_of=(_run_of_claude_code,), tools=(_TOOL,))
    facts = FactKeys(
        inputs=("user_prompt", "tool_input", "tool_parameters"),
        outputs=("response.model_output", "tool_output"),
        tools=(_TOOL,),
        call_ids=("gen_ai.tool.call.id", "tool_use_id"),
        errors=("error",),
        successes=("success",),
        models=("model", "gen_ai.request.model"),
        response_ids=("gen_ai.response.id", "request_id"),
        finish_reasons=("stop_reason",),
        tokens={
            "input_tokens": "input_tokens",
            "output_tokens": "output_tokens",
            "cache_read_tokens": "cache_read_input_tokens",
            "cache_creation_tokens": "cache_creation_input_tokens",
        },
    )

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        facts = super().read(span, logs)
        if facts.role is SpanRole.TOOL and facts.result is None:
            outputs = (event.attributes.get(_OUTPUT) for event in span.events if event.name == _OUTPUT_EVENT)
            facts.result = next(filter(None, map(known_text, outputs)), None)
        return facts
