"""A dialect as data: which spans play which part, and under which attribute each fact stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from otel_agenteval.conventions import api_bodies
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.decoding import (
    decode_arguments,
    decode_structure,
    first_text,
    is_cut,
    known_text,
    object_in,
)
from otel_agenteval.conventions.dialect import Attributes, Dialect, KindAttribute, SpanFacts, SpanRole
from otel_agenteval.conventions.framework_values import answered, asked, read_result
from otel_agenteval.conventions.spans import STATUS_ERROR, LogRecord, SpanRecord
from otel_agenteval.model import Json, Usage

_NOTHING = ("{}", "[]", "null", "")
"""What a failed step is said to have given back."""
_RUNS = (SpanRole.AGENT, SpanRole.WORKFLOW, SpanRole.CHAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactKeys:
    """The attributes of an emitter by the fact that they hold. Of several, the first that is there counts."""

    inputs: tuple[str, ...] = ()
    """What a run or a model was asked; a tool's arguments."""
    outputs: tuple[str, ...] = ()
    """What a run, a model or a tool gave back."""
    tools: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Words of an error, or True if the output holds them."""
    successes: tuple[str, ...] = ()
    """False if the step failed."""
    models: tuple[str, ...] = ()
    response_ids: tuple[str, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    tokens: Mapping[str, str] | None = None
    """Attributes that count tokens, by the names that the body of Anthropic's or OpenAI's API has for them."""


class TableDialect(Dialect):
    """A dialect whose spans are read by its tables alone.

    A span's part is told by the first of `kinds` that it has, else by its name. Contents are requests, responses or
    messages in any form that is known.
    """

    kinds: ClassVar[tuple[KindAttribute, ...]] = ()
    span_names: ClassVar[Mapping[str, SpanRole | None]] = {}
    facts: ClassVar[FactKeys] = FactKeys()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.marks = frozenset(kind.key for kind in cls.kinds)
        cls.names = frozenset(cls.span_names)

    def read(self, span: SpanRecord, logs: Sequence[LogRecord]) -> SpanFacts:
        attributes, keys = span.attributes, self.facts
        facts = SpanFacts(role=self._role(span))
        inputs, returned = _first(attributes, keys.inputs), _first(attributes, keys.outputs)
        if span.status == STATUS_ERROR and returned in _NOTHING:
            returned = None
        facts.cut = facts.role is not None and (is_cut(inputs) or is_cut(returned))
        if facts.role is SpanRole.TOOL:
            facts.tool = first_text(attributes, *keys.tools)
            facts.arguments = None if inputs is None else decode_arguments(inputs)
            read_result(facts, _alone(returned))
            facts.call_id = first_text(attributes, *keys.call_ids) or facts.call_id
            facts.error = self._error(attributes, facts.result) or facts.error
            facts.is_success = _first(attributes, self.facts.successes) in (True, "true") or None
        elif facts.role is SpanRole.MODEL:
            self._read_model(facts, attributes, inputs, returned)
        elif facts.role in _RUNS:
            facts.input, facts.output = asked(inputs), answered(returned)
        return facts

    def _role(self, span: SpanRecord) -> SpanRole | None:
        kind = next((kind for kind in self.kinds if kind.key in span.attributes), None)
        return self.span_names.get(span.name) if kind is None else kind.role(span.attributes)

    def _read_model(self, facts: SpanFacts, attributes: Attributes, inputs: Json, returned: Json) -> None:
        keys = self.facts
        if inputs is not None:
            facts.input = Content(lambda: api_bodies.request(inputs), cut=is_cut(inputs))
            facts.tool_definitions = api_bodies.tools(inputs)
        if returned is not None:
            facts.output = Content(lambda: api_bodies.response(returned), cut=is_cut(returned))
        facts.model = first_text(attributes, *keys.models) or known_text(api_bodies.described(returned).get("model"))
        facts.response_id = first_text(attributes, *keys.response_ids)
        facts.finish_reason = first_text(attributes, *keys.finish_reasons) or api_bodies.finish_reason(returned)
        facts.usage = self._usage(attributes, returned)

    def _usage(self, attributes: Attributes, returned: Json) -> Usage | None:
        if self.facts.tokens is not None:
            return api_bodies.usage({name: attributes.get(key) for key, name in self.facts.tokens.items()})
        return api_bodies.usage(api_bodies.described(returned).get("usage"))

    def _error(self, attributes: Attributes, result: Json) -> str | None:
        failed = _first(attributes, self.facts.errors)
        if isinstance(failed, str) and (words := known_text(failed)):
            return words
        if failed is True or _first(attributes, self.facts.successes) in (False, "false"):
            error = object_in(decode_structure(result)).get("error", result)
            return error if isinstance(error, str) else "error"
        return None


def _alone(returned: Json) -> Json:
    """Return what is in {"output": ...}, as LangChain's tracer records a result; anything else as it is."""
    if isinstance(returned, str) and returned.startswith('{"output":'):
        fields = object_in(decode_structure(returned))
        return fields["output"] if len(fields) == 1 else returned
    return returned


def _first(attributes: Attributes, keys: Sequence[str]) -> Json:
    return next((attributes[key] for key in keys if attributes.get(key) is not None), None)
