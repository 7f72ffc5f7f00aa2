"""The log records by which coding agents tell of their work, as a table: an emitter a row, and in it an event a row.

They name a session and send no spans, or spans that say less. `event_spans` makes spans of them.

Sources, as of November 2026: Claude Code (https://code.claude.com/docs/en/monitoring-usage, recorded with 2.1.332),
Cowork (https://claude.com/docs/cowork/monitoring, the same events), Codex (openai/codex, codex-rs/otel/src/events,
recorded with 0.171), Gemini CLI (google-gemini/gemini-cli, docs/cli/telemetry.md, recorded with 0.61), opencode
(DEVtheOPS/opencode-plugin-otel).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from agenteval_collector.model.logged_requests import Signal
from otel_agenteval import semconv

PROMPT: Final = "invoke_agent"
"""What the user said: it begins a turn."""
CALL: Final = "chat"
TOOL: Final = "execute_tool"

CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING: Final = "gen_ai.usage.reasoning.output_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """One kind of event: the operation of its span, and its attributes by what they hold. Of several, the first that
    is there counts."""

    operation: str
    words: tuple[str, ...] = ()
    """What the user or the model said."""
    body: tuple[str, ...] = ()
    """A response of a model's API, as JSON."""
    spoken_if: tuple[str, Sequence[str]] | None = None
    """An attribute, and how its value begins where the words are for the user. The words of other calls, which write
    titles or summaries, are left out."""
    only_if: Mapping[str, str] = field(default_factory=dict)
    """Values that other attributes must have."""
    needs: tuple[str, ...] = ()
    """Without any of these, the event says nothing."""
    failed_if: tuple[str, ...] = ()
    """Attributes that only a failure has. An event that has none is passed over."""
    refused: bool = False
    """True if the event says that somebody refused the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter:
    """A coding agent: how its events are known, and how its attributes are called."""

    agent: str
    provider: str | None
    prefix: str
    """How the names of its events begin."""
    mark: str
    """A text that every request with such events holds."""
    events: Mapping[str, Sequence[AgentEvent]]
    service: str | None = None
    """The service of its events, if their names say too little."""
    session: tuple[str, ...] = ("session.id",)
    turn: str | None = None
    """The attribute with an id of the turn; None: a turn is what follows a prompt."""
    told_by_spans: frozenset[str] | None = frozenset()
    """Operations that its own spans tell, if its records name a trace. None: its records stand in other traces than
    their turn, so what they name is passed over."""
    scope: str | None = None
    """The scope of its own spans, each a trace of its own: they are passed over if events tell the session."""
    is_stamped_at_start: bool = False
    """True if the time of an event is when the step began."""
    are_cached_beside: bool = False
    """True if the input does not include cached tokens."""
    are_thoughts_beside: bool = False
    """True if the output does not include reasoning."""

    def is_in(self, signal: Signal, body: bytes) -> bool:
        """Return whether a request may hold events of this emitter, or spans that say less than they do."""
        return self.mark.encode() in body if signal is Signal.LOGS else bool(self.scope and self.scope.encode() in body)

    def named(self, names: Sequence[str], service: str, keys: Collection[str]) -> Sequence[AgentEvent]:
        """Return what a record can be that has one of `names` and the attributes `keys`; nothing if it is
        another's."""
        if self.service not in (None, service):
            return ()
        ours = [name.removeprefix(self.prefix) for name in names if self.prefix and name.startswith(self.prefix)]
        if not ours and (self.service is not None or self.turn in keys):
            ours = list(names)
        return next((self.events[name] for name in ours if name in self.events), ())


_INPUT_TOKENS: Final = ("input_tokens", "input_token_count")
_FOR_THE_USER: Final = ("query_source", ("repl_main_thread", "sdk", "main"))

_CLAUDE_CODE: Final = Emitter(
    agent="claude-code",
    provider="anthropic",
    prefix="claude_code.",
    mark="prompt.id",
    turn="prompt.id",
    told_by_spans=frozenset((PROMPT,)),
    are_cached_beside=True,
    events={
        "user_prompt": (AgentEvent(operation=PROMPT, words=("prompt",)),),
        "assistant_response": (
            AgentEvent(
                operation=CALL,
                words=("response",),
                spoken_if=_FOR_THE_USER,
                needs=("response",),
            ),
        ),
        "api_request": (AgentEvent(operation=CALL, needs=_INPUT_TOKENS),),
        "api_error": (AgentEvent(operation=CALL, failed_if=("error", "status_code")),),
        "api_response_body": (
            AgentEvent(
                operation=CALL,
                body=("body",),
                spoken_if=_FOR_THE_USER,
                needs=("body",),
            ),
        ),
        "tool_result": (AgentEvent(operation=TOOL),),
        "tool_decision": (AgentEvent(operation=TOOL, only_if={"decision": "reject"}, refused=True),),
    },
)

EMITTERS: Final[tuple[Emitter, ...]] = (
    replace(_CLAUDE_CODE, agent="cowork", service="cowork"),
    _CLAUDE_CODE,
    Emitter(
        agent="codex",
        provider="openai",
        prefix="codex.",
        mark="codex.",
        session=("conversation.id",),
        told_by_spans=frozenset((CALL,)),
        events={
            "user_prompt": (AgentEvent(operation=PROMPT, words=("prompt",)),),
            "sse_event": (
                AgentEvent(operation=CALL, only_if={"event.kind": "response.completed"}, needs=("input_token_count",)),
                AgentEvent(operation=CALL, failed_if=("error.message",)),
            ),
            **dict.fromkeys(
                ("api_request", "websocket_request", "websocket_event"),
                (AgentEvent(operation=CALL, failed_if=("error.message",)),),
            ),
            "tool_result": (AgentEvent(operation=TOOL),),
        },
    ),
    Emitter(
        agent="gemini-cli",
        provider="gcp.gen_ai",
        prefix="gemini_cli.",
        mark="gemini_cli.",
        told_by_spans=None,
        scope="gemini-cli",
        are_thoughts_beside=True,
        events={
            "user_prompt": (AgentEvent(operation=PROMPT, words=("prompt",)),),
            "api_response": (
                AgentEvent(operation=CALL, body=("response_text",), spoken_if=("role", ("main",)), needs=_INPUT_TOKENS),
            ),
            "api_error": (AgentEvent(operation=CALL, failed_if=("error.message", "error", "status_code")),),
            "tool_call": (
                AgentEvent(operation=TOOL, only_if={"decision": "reject"}, refused=True),
                AgentEvent(operation=TOOL),
            ),
        },
    ),
    Emitter(
        agent="opencode",
        provider=None,
        prefix="",
        mark="opencode",
        service="opencode",
        told_by_spans=frozenset((PROMPT, CALL, TOOL)),
        is_stamped_at_start=True,
        are_cached_beside=True,
        are_thoughts_beside=True,
        events={
            "user_prompt": (AgentEvent(operation=PROMPT, words=("prompt",)),),
            "api_request": (AgentEvent(operation=CALL, needs=_INPUT_TOKENS),),
            "api_error": (AgentEvent(operation=CALL, failed_if=("error",)),),
            "tool_result": (AgentEvent(operation=TOOL),),
        },
    ),
)
"""The first whose events a record is one of."""

_OWN: Final = {"gen_ai.agent.name": ("agent.name",)}
RENAMED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    PROMPT: {},
    CALL: {
        **_OWN,
        semconv.GEN_AI_REQUEST_MODEL: ("model", "model_name"),
        semconv.GEN_AI_RESPONSE_ID: ("request_id",),
        "gen_ai.response.finish_reasons": ("finish_reasons",),
    },
    TOOL: {
        **_OWN,
        semconv.GEN_AI_TOOL_NAME: ("tool_name", "function_name"),
        semconv.GEN_AI_TOOL_CALL_ID: ("tool_use_id", "call_id"),
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: ("tool_input", "arguments", "function_args"),
        semconv.GEN_AI_TOOL_CALL_RESULT: ("output",),
    },
}
"""By operation: attributes of the GenAI conventions by the names that emitters have for them."""
TOKENS: Final[Mapping[str, tuple[str, ...]]] = {
    semconv.GEN_AI_USAGE_INPUT_TOKENS: _INPUT_TOKENS,
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: ("output_tokens", "output_token_count"),
    CACHE_READ: ("cache_read_tokens", "cached_token_count", "cached_content_token_count"),
    CACHE_WRITE: ("cache_creation_tokens", "cache_write_token_count"),
    REASONING: ("reasoning_tokens", "reasoning_token_count", "thoughts_token_count"),
}
"""Numbers of tokens by the same."""
ERRORS: Final = ("error.message", "error", "error_type", "error.type", "status_code", "http.response.status_code")
"""The words of a failure, else its type, else its status."""
