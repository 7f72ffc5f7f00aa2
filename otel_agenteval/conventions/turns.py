"""A turn from its spans: what the user asked, what the agent did, what it answered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from otel_agenteval.conventions.facts import Role, SpanFacts
from otel_agenteval.conventions.failures import is_cancelled, span_error, tells_of
from otel_agenteval.conventions.messages import Message, spoken_by
from otel_agenteval.conventions.questions import question_of, sent_of
from otel_agenteval.conventions.spans import STATUS_ERROR
from otel_agenteval.conventions.tools import tool_calls
from otel_agenteval.conventions.tree import Node
from otel_agenteval.conventions.turn_nodes import TurnNodes, speakers
from otel_agenteval.model import ModelCall, Turn

MAX_REASON = 64
"""Characters of a finish reason that are kept."""

_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool-calls", "tool_use", "function_call"})


def read_turn(turn: TurnNodes, agents: Sequence[str], *, is_last: bool) -> Turn:
    """Read a turn from its nodes; `agents` are the names of the trace's agents, and `is_last` says that no other turn
    of the trace follows."""
    models = turn.models
    nodes = [turn.root, *turn.runs, *models, *turn.tools]
    output = _output(turn)
    error, is_cancelled = _failure(turn, answered=bool(output), is_last=is_last)
    ends_in_call = not output and _ends_in_call(turn)
    started_at = min(node.span.started_at for node in nodes)
    return Turn(
        span_id=turn.root.id,
        input=_input(turn),
        output=None if not output and (error or ends_in_call) else output,
        agent=next((facts.agent for facts in _facts(_voices(turn) + models) if facts.agent), None),
        error=error,
        is_cancelled=is_cancelled,
        ends_in_call=ends_in_call,
        tool_calls=tool_calls(models, turn.tools, agents),
        model_calls=tuple(_model_calls(models)),
        reasoning=_reasoning(models),
        plan=_plan(turn),
        started_at=started_at,
        ended_at=max(started_at, *(node.span.ended_at for node in nodes)),
    )


def _voices(turn: TurnNodes) -> list[Node]:
    return [voice for run in turn.runs for voice in speakers(run)]


def _input(turn: TurnNodes) -> str | None:
    """Return the question of a turn: as a run says it, the outermost first; else what the first model call was sent."""
    for node in _voices(turn) + turn.models[:1]:
        if node.facts and node.facts.input and (text := node.facts.input.user_text()) is not None:
            return text
    return None


def _output(turn: TurnNodes) -> str | None:
    """Return the answer of a turn: as the last run says it, or the last agent in it; else the last model call's reply.

    Empty where one of them says that nothing was answered, and the others say no more.
    """
    said: list[str | None] = []
    for node in _last_speakers(turn):
        if text := _answer(node):
            return None if _is_own_error(node, text) else text
        said.append(text)
    last = _last_told(turn)
    said.append(_reply(last) if last else None)
    return said[-1] or ("" if "" in said else None)


def _last_speakers(turn: TurnNodes) -> list[Node]:
    """Return the last run, and the last agent of those that it is made of."""
    if not turn.runs:
        return []
    run, *inner = speakers(turn.runs[-1])
    return [run, *([max(inner, key=lambda node: node.span.ended_at)] if inner else [])]


def _last_told(turn: TurnNodes) -> Node | None:
    return next((node for node in reversed(turn.models) if _tells(node)), None)


def _answer(run: Node) -> str | None:
    return run.facts.output.answer() if run.facts and run.facts.output else None


def _is_own_error(run: Node, text: str) -> bool:
    """Return whether what a failed run says in place of an answer is the error that made it fail."""
    return run.span.status == STATUS_ERROR and any(tells_of(node.span, text) for node in run.below())


def _tells(model: Node) -> bool:
    """Return whether a model call has content or failed: of any other it is not known whether it answered."""
    return model.has_content or span_error(model.span) is not None


def _reply(model: Node) -> str | None:
    """Return the text of a model call's reply; None where it failed, asked for tools, or was not recorded."""
    facts = model.facts
    if facts is None or facts.output is None or span_error(model.span):
        return None
    if _asks_for_tools(model):
        return None
    messages = facts.output.messages
    said = spoken_by(messages[-1]) if messages and not facts.output.cut else None
    return _text(model) or said


def _asks_for_tools(model: Node) -> bool:
    """Return whether a reply holds requests; of a reply that is empty or cut, the reason why it ended says so."""
    facts = model.facts
    if facts is None or facts.output is None:
        return False
    if any(message.requests for message in facts.output.messages):
        return True
    is_whole = not facts.output.cut and _text(model) is not None
    return not is_whole and _finish_reason(facts) in _TOOL_REASONS


def _ends_in_call(turn: TurnNodes) -> bool:
    """Return whether the last thing that was said asks for a tool, or hands the conversation over."""
    last = _last_told(turn)
    if last and _asks_for_tools(last):
        return True
    since = last.span.started_at if last else 0
    return any(
        node.facts is not None and node.facts.hands_over_to is not None and node.span.started_at >= since
        for run in turn.runs[-1:]
        for node in run.below()
    )


def _text(model: Node) -> str | None:
    output = model.facts.output if model.facts else None
    texts = [message.text for message in output.messages if message.text] if output else []
    return "\n".join(texts) if texts else None


def _failure(turn: TurnNodes, *, answered: bool, is_last: bool) -> tuple[str | None, bool]:
    """Return the error that the turn failed with, and whether it was cancelled."""
    ended = _ended_with(turn, is_last)
    failed = (_own_error(node) for node in ended if not is_cancelled(node.span))
    error = next(filter(None, failed), None)
    why = None if answered else _unanswered(turn)
    cancelled = any(is_cancelled(node.span) for node in (*ended, *(() if answered else turn.models[-1:])))
    if error is None:
        return why, cancelled
    return (error if cancelled else why or error), False


def _ended_with(turn: TurnNodes, is_last: bool) -> list[Node]:
    """Return the spans that ended with the turn: its last run, and those around the last turn of a trace.

    A run that failed before another took its place is none of them, nor is an agent in a run that went on without it.
    """
    runs = turn.runs[-1:]
    ended = runs if runs and runs[0].role is Role.AGENT else _last_speakers(turn)
    innermost = ended[0] if ended else turn.root
    if not ended and innermost.role not in (Role.MODEL, Role.TOOL):
        ended.append(innermost)
    return [*ended, *(innermost.above() if is_last else ())]


def _unanswered(turn: TurnNodes) -> str | None:
    """Return why a turn has no answer: its last model call failed, or one of its runs, or the request around it."""
    voices = list(reversed(_voices(turn)))
    for run in voices:
        if (text := _answer(run)) and _is_own_error(run, text):
            return text
    nodes = turn.models[-1:] + voices + [turn.root]
    return next((error for node in nodes if (error := span_error(node.span))), None)


def _own_error(node: Node) -> str | None:
    return span_error(node.span) or (node.facts.error if node.facts else None)


def _model_calls(models: Sequence[Node]) -> Iterator[ModelCall]:
    """Return all that was sent is read only for a reply that was given to the same before: a history is long."""
    given: set[tuple[str | None, str]] = set()
    for node in models:
        call = _model_call(node)
        if call.output is not None:
            pair = (call.question.newest if call.question else None, call.output)
            if pair in given:
                call = replace(call, sent=sent_of(node.span.attributes))
            given.add(pair)
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
        finish_reason=_finish_reason(facts),
        usage=facts.usage,
        error=span_error(span),
        started_at=span.started_at,
        ended_at=max(span.started_at, span.ended_at),
    )


def _finish_reason(facts: SpanFacts) -> str | None:
    """Return why a model ended its reply, by the call itself or else by the message; of several choices the first."""
    messages = facts.output.messages if facts.output and not facts.finish_reasons else []
    reasons = facts.finish_reasons or [reason for each in messages if (reason := each.finish_reason)]
    return next((reason[:MAX_REASON] for reason in reasons), None)


def _reasoning(models: Sequence[Node]) -> tuple[str, ...]:
    """Return reasoning stands in a reply, or (Responses API) only in what the next call is sent back."""
    texts: dict[str, None] = {}
    for message in _sent_back(models):
        texts.update(dict.fromkeys(message.reasoning))
    for each in _facts(models):
        for message in each.output.messages if each.output else ():
            texts.update(dict.fromkeys(message.reasoning))
        if each.reasoning:
            texts[each.reasoning] = None
    return tuple(texts)


def _plan(turn: TurnNodes) -> tuple[str, ...]:
    """Return replies of planning calls, and what a model says beside its tool requests.

    A reply may have been recorded without its requests; they stand in what the next call is sent back.
    """
    plans = []
    beside_requests = {message.text for message in _sent_back(turn.models) if message.requests}
    for node in turn.models:
        output = node.facts.output if node.facts else None
        asked = output is not None and any(message.requests for message in output.messages)
        if (text := _text(node)) and (asked or node.id in turn.planners or text in beside_requests):
            plans.append(text)
    return tuple(plans)


def _sent_back(models: Sequence[Node]) -> Sequence[Message]:
    """Return the messages since the user's that the last of several model calls was sent: results of the others."""
    last = models[-1].facts if len(models) > 1 else None
    return last.input.since_user() if last and last.input else ()


def _facts(nodes: Iterable[Node]) -> Iterable[SpanFacts]:
    return (node.facts for node in nodes if node.facts)
