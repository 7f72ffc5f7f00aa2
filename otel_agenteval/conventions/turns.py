"""A turn from its spans: what the user asked, what the agent did, what it answered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from otel_agenteval.conventions.exchanges import Exchange, speakers
from otel_agenteval.conventions.facts import SpanFacts
from otel_agenteval.conventions.failures import span_error, tells_of
from otel_agenteval.conventions.messages import Message
from otel_agenteval.conventions.records import STATUS_ERROR
from otel_agenteval.conventions.tools import tool_calls
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import ModelCall, Turn
from otel_agenteval.questions import question_of, sent_of

_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool-calls", "tool_use", "function_call"})


def read_turn(exchange: Exchange, agents: Sequence[str]) -> Turn:
    """The turn of an exchange; `agents` are the names of the trace's agents."""
    models = exchange.models
    nodes = [exchange.root, *exchange.runs, *models, *exchange.tools]
    output = _output(exchange)
    started_at = min(node.span.started_at for node in nodes)
    return Turn(
        span_id=exchange.root.id,
        input=_input(exchange),
        output=output,
        agent=next((facts.agent for facts in _facts(_voices(exchange) + models) if facts.agent), None),
        error=_error(exchange) if output is None else None,
        tool_calls=tool_calls(models, exchange.tools, agents),
        model_calls=tuple(_model_calls(models)),
        reasoning=_reasoning(models),
        plan=_plan(exchange),
        started_at=started_at,
        ended_at=max(started_at, *(node.span.ended_at for node in nodes)),
    )


def _voices(exchange: Exchange) -> list[Node]:
    return [voice for run in exchange.runs for voice in speakers(run)]


def _input(exchange: Exchange) -> str | None:
    """What a run says it was asked, the outermost first; else what the first model call was sent."""
    for node in _voices(exchange) + exchange.models[:1]:
        if node.facts and node.facts.input and (text := node.facts.input.user_text()) is not None:
            return text
    return None


def _output(exchange: Exchange) -> str | None:
    """What the last run says it answered, or the last agent in it; else the last model call's reply."""
    if exchange.runs:
        run, *inner = speakers(exchange.runs[-1])
        last = max(inner, key=lambda node: node.span.ended_at, default=run)
        for node in (run, last):
            if (text := _answer(node)) is not None:
                return None if _is_own_error(node, text) else text
    return next((_reply(node) for node in reversed(exchange.models) if _tells(node)), None)


def _answer(run: Node) -> str | None:
    return run.facts.output.answer() if run.facts and run.facts.output else None


def _is_own_error(run: Node, text: str) -> bool:
    """Whether what a failed run says in place of an answer is the error that made it fail."""
    return run.span.status == STATUS_ERROR and any(tells_of(node.span, text) for node in run.below())


def _tells(model: Node) -> bool:
    """Whether a model call has content or failed: of any other it is not known whether it answered."""
    return model.has_content or span_error(model.span) is not None


def _reply(model: Node) -> str | None:
    """The text of a model call's reply; None where it failed, asked for tools, or was not recorded."""
    facts = model.facts
    if facts is None or facts.output is None or span_error(model.span):
        return None
    messages = facts.output.messages
    if any(message.requests for message in messages):
        return None
    if facts.output.cut and not _TOOL_REASONS.isdisjoint(facts.finish_reasons or ()):
        return None
    return _text(model)


def _text(model: Node) -> str | None:
    output = model.facts.output if model.facts else None
    texts = [message.text for message in output.messages if message.text] if output else []
    return "\n".join(texts) if texts else None


def _error(exchange: Exchange) -> str | None:
    """Why a turn has no answer: its last model call failed, or one of its runs, or the request around it."""
    voices = list(reversed(_voices(exchange)))
    for run in voices:
        if (text := _answer(run)) is not None and _is_own_error(run, text):
            return text
    nodes = exchange.models[-1:] + voices + [exchange.root]
    return next((error for node in nodes if (error := span_error(node.span))), None)


def _model_calls(models: Sequence[Node]) -> Iterator[ModelCall]:
    """All that was sent is read only for a reply that was given to the same before: a history is long."""
    given: set[tuple[str | None, str]] = set()
    for node in models:
        call = _model_call(node)
        if call.output is not None:
            exchanged = (call.question.newest if call.question else None, call.output)
            if exchanged in given:
                call = replace(call, sent=sent_of(node.span.attributes))
            given.add(exchanged)
        yield call


def _model_call(node: Node) -> ModelCall:
    facts = node.facts or SpanFacts()
    span = node.span
    return ModelCall(
        span_id=node.id,
        model=facts.model,
        agent=node.agent,
        run=node.run,
        question=question_of(span.attributes),
        output=_text(node),
        usage=facts.usage,
        error=span_error(span),
        started_at=span.started_at,
        ended_at=max(span.started_at, span.ended_at),
    )


def _reasoning(models: Sequence[Node]) -> tuple[str, ...]:
    """Reasoning stands in a reply, or (Responses API) only in what the next call is sent back."""
    texts: dict[str, None] = {}
    for message in _sent_back(models):
        texts.update(dict.fromkeys(message.reasoning))
    for each in _facts(models):
        for message in each.output.messages if each.output else ():
            texts.update(dict.fromkeys(message.reasoning))
        if each.reasoning:
            texts[each.reasoning] = None
    return tuple(texts)


def _plan(exchange: Exchange) -> tuple[str, ...]:
    """Replies of planning calls, and what a model says beside its tool requests.

    A reply may have been recorded without its requests; they stand in what the next call is sent back.
    """
    plans = []
    beside_requests = {message.text for message in _sent_back(exchange.models) if message.requests}
    for node in exchange.models:
        output = node.facts.output if node.facts else None
        asked = output is not None and any(message.requests for message in output.messages)
        if (text := _text(node)) and (asked or node.id in exchange.planners or text in beside_requests):
            plans.append(text)
    return tuple(plans)


def _sent_back(models: Sequence[Node]) -> Sequence[Message]:
    """What the last call of several is told of those before it."""
    last = models[-1].facts if len(models) > 1 else None
    return last.input.since_user() if last and last.input else ()


def _facts(nodes: Iterable[Node]) -> Iterable[SpanFacts]:
    return (node.facts for node in nodes if node.facts)
