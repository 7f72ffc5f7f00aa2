"""Read a turn from its spans: the user's question, the agent's steps and its answer."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from otel_agenteval.conventions.content import Content, unwrapped_answer
from otel_agenteval.conventions.dialect import SpanFacts, SpanRole
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, spoken_by
from otel_agenteval.conventions.model_questions import question_of, sent_of
from otel_agenteval.conventions.money import billed_usd, provider_of
from otel_agenteval.conventions.python_repr import is_object
from otel_agenteval.conventions.span_errors import begins_like, error_type, is_cancelled, span_error, tells_of
from otel_agenteval.conventions.spans import STATUS_ERROR
from otel_agenteval.conventions.steering import answer_in
from otel_agenteval.conventions.tool_calls import handovers, plain_calls, tool_calls
from otel_agenteval.conventions.tree import Node
from otel_agenteval.conventions.turn_nodes import TurnNodes, speakers, top_of
from otel_agenteval.model import ModelCall, Turn, Usage

_RUN = "invoke_agent"
"""How the names of spans of agent runs begin."""
MAX_REASON = 64
"""Characters of a finish reason that are kept."""

_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool-calls", "tool_use", "function_call"})


def read_turn(turn: TurnNodes, agents: Sequence[str], *, is_last: bool) -> Turn:
    """Read a turn. `agents` are the names of the trace's agents. `is_last`: no other turn of the trace follows."""
    models = turn.models
    _recall_replies(models)
    nodes = [turn.root, *turn.runs, *models, *turn.tools]
    output = _output(turn)
    error, is_cancelled = _failure(turn, answered=bool(output), is_last=is_last)
    ends_in_call = not output and _ends_in_call(turn)
    started_at = min(node.span.started_at for node in nodes)
    is_orphan = _is_orphan(turn)
    return Turn(
        span_id=turn.root.id,
        input=_input(turn),
        output=None if not output and (error or ends_in_call) else output,
        agent=next((node.facts.agent for node in _voices(turn) + models if node.facts.agent), None),
        error=None if is_orphan else error,
        is_cancelled=is_cancelled,
        ends_in_call=ends_in_call,
        tool_calls=tool_calls(models, turn.tools, agents),
        handovers=handovers(models, [*turn.tools, *turn.handovers], agents),
        model_calls=tuple(_model_calls(models)),
        reasoning=_reasoning(models),
        plan=_plan(turn),
        is_orphan=is_orphan,
        started_at=started_at,
        ended_at=max(started_at, *(node.span.ended_at for node in nodes)),
    )


def read_plain_turn(turn: TurnNodes) -> Turn | None:
    """Return what `read_turn` returns of the turn of a plain trace, if its run was asked and answered, and all that its
    models asked for was done."""
    root, models = turn.root, turn.models
    output = _answer(root)
    asked = root.facts.input.user_text() if root.facts.input else None
    if not output or asked is None or any(map(_is_empty, models[:-1])):
        return None
    calls = plain_calls(models, turn.tools)
    if calls is None:
        return None
    nodes = [root, *models, *turn.tools]
    started_at = min([node.span.started_at for node in nodes])
    return Turn(
        span_id=root.id,
        input=asked,
        output=output,
        agent=root.facts.agent,
        tool_calls=calls,
        model_calls=tuple(_model_calls(models)),
        reasoning=_reasoning(models),
        plan=_plan(turn),
        started_at=started_at,
        ended_at=max([started_at, *(node.span.ended_at for node in nodes)]),
    )


def _is_orphan(turn: TurnNodes) -> bool:
    """Return whether a turn is nothing but tool calls, and not because the spans around them never came."""
    is_bare = not turn.runs and not turn.models and not turn.unread_failures and not turn.handovers
    return is_bare and all(top_of(node).span.parent_id is None for node in turn.tools)


def _voices(turn: TurnNodes) -> list[Node]:
    return [voice for run in turn.runs for voice in speakers(run)]


def _in_order(turn: TurnNodes) -> list[Node]:
    """Return the model calls of a turn by start time, those within a tool call by the start of that call: another
    service may have another clock, and work may go on in the background."""
    return sorted(turn.models, key=lambda node: node.span.started_at if node.tool_at is None else node.tool_at)


def _input(turn: TurnNodes) -> str | None:
    """Return the question of a turn: that of a run, the outermost first, else that of the first model call."""
    for node in _voices(turn) + _in_order(turn)[:1]:
        if node.facts.input and (text := node.facts.input.user_text()) is not None:
            return text
    return None


def _output(turn: TurnNodes) -> str | None:
    """Return the answer of a turn: that of the last run, or of the last agent in it, else the last model call's reply.

    Empty if one of them says that the answer is empty, and no other has one.
    """
    replies: list[str | None] = []
    for node in _last_speakers(turn):
        if text := _answer(node):
            return None if _is_error(turn, node, text) else text
        replies.append(text)
    last = _last_told(turn)
    replies.append(_reply(last) if last else None)
    return replies[-1] or ("" if "" in replies else None)


def _last_speakers(turn: TurnNodes) -> list[Node]:
    """Return the last run, and of the agents within it the one that ended last."""
    if not turn.runs:
        return []
    run, *inner = speakers(turn.runs[-1])
    return [run, *([max(inner, key=lambda node: node.span.ended_at)] if inner else [])]


def _last_told(turn: TurnNodes) -> Node | None:
    """Return the last model call that tells how it ended. In place of one that failed, return another attempt at the
    same call that ran beside it and answered."""
    tellers = [node for node in _in_order(turn) if _tells(node)]
    last = tellers[-1] if tellers else None
    if last and span_error(last.span):
        return next(
            (attempt for attempt in reversed(tellers) if _is_attempt_beside(last, attempt) and _reply(attempt)), last
        )
    return last


def _is_attempt_beside(model: Node, other: Node) -> bool:
    """Return whether two model calls overlap and were sent the same, so that neither is a step after the other."""
    first, second = model.facts.input, other.facts.input
    return (
        model.parent is other.parent
        and model.overlaps(other)
        and first is not None
        and second is not None
        and first.messages == second.messages
    )


def _answer(run: Node) -> str | None:
    answer = run.facts.output.answer() if run.facts.output else None
    return None if answer and is_object(answer) else answer


def _is_error(turn: TurnNodes, run: Node, text: str) -> bool:
    """Return whether the answer of a run is an error: what made it fail, or what the last model call failed with."""
    if run.span.status == STATUS_ERROR and (begins_like(run.span, text) or _is_error_below(run, text)):
        return True
    last = _unread_attempt(turn) or max(turn.models, key=lambda node: node.span.started_at, default=None)
    return last is not None and tells_of(last.span, text)


def _unread_attempt(turn: TurnNodes) -> Node | None:
    """Return the failed span in a turn that may be its last model call: some instrumentations write no attributes on a
    call that fails, so that no dialect knows it. No model was called after it."""
    if not turn.unread_failures:
        return None
    last = max(turn.unread_failures, key=lambda node: node.span.started_at)
    asked_at = max((node.span.started_at for node in turn.models), default=0)
    return last if last.span.started_at >= asked_at else None


def _is_error_below(run: Node, text: str) -> bool:
    return any(tells_of(node.span, text) for node in run.below())


def _tells(model: Node) -> bool:
    """Return whether a model call has content or failed. Of other calls it is not known whether they answered."""
    return model.facts.has_content or span_error(model.span) is not None


def _reply(model: Node) -> str | None:
    """Return the text of a model call's reply; None if it failed, asked for other tools than one for its answer, or was
    not recorded."""
    facts = model.facts
    if facts.output is None or span_error(model.span):
        return None
    if _asks_for_tools(facts):
        return answer_in(facts.requests)
    reply = spoken_by(facts.replies[-1]) if facts.replies and not facts.output.cut else None
    text = _text(facts)
    if text and is_object(text):
        return None
    return unwrapped_answer(text) if text else reply


def _asks_for_tools(facts: SpanFacts) -> bool:
    """Return whether a reply requests tools. Of a reply that is empty or cut, the finish reason tells."""
    if facts.output is None:
        return False
    is_whole = not facts.output.cut and _text(facts) is not None
    return bool(facts.requests) or (not is_whole and _finish_reason(facts) in _TOOL_REASONS)


def _ends_in_call(turn: TurnNodes) -> bool:
    """Return whether the last reply requests a tool, or the conversation was handed over after it."""
    last = _last_told(turn)
    if last and _asks_for_tools(last.facts):
        return True
    since = last.span.started_at if last else 0
    return any(
        node.facts.hands_over_to is not None and node.span.started_at >= since
        for run in turn.runs[-1:]
        for node in run.below()
    )


def _text(facts: SpanFacts) -> str | None:
    texts = [message.text for message in facts.replies if message.text]
    return "\n".join(texts) if texts else None


def _failure(turn: TurnNodes, *, answered: bool, is_last: bool) -> tuple[str | None, bool]:
    """Return the error that the turn failed with, and whether it was cancelled."""
    ended = _ended_with(turn, is_last)
    failed = (span_error(node.span) or node.facts.error for node in ended if not is_cancelled(node.span))
    error = next(filter(None, failed), None)
    why = None if answered else _unanswered(turn)
    cancelled = any(is_cancelled(node.span) for node in (*ended, *(() if answered else _in_order(turn)[-1:])))
    if error is None:
        return why, cancelled
    return (error if cancelled else why or error), False


def _ended_with(turn: TurnNodes, is_last: bool) -> list[Node]:
    """Return the spans that ended with the turn: its last run, and around the last turn of a trace the spans outside.

    Earlier runs of the turn do not count: another one took their place.
    """
    runs = turn.runs[-1:]
    ended = runs if runs and runs[0].role is SpanRole.AGENT else _last_speakers(turn)
    innermost = ended[0] if ended else turn.root
    if not ended and innermost.role not in (SpanRole.MODEL, SpanRole.TOOL):
        ended.append(innermost)
    return [*ended, *(innermost.above() if is_last else ())]


def _unanswered(turn: TurnNodes) -> str | None:
    """Return why a turn has no answer: the error of its last model call, of one of its runs, or of its root."""
    voices = list(reversed(_voices(turn)))
    for run in voices:
        if (text := _answer(run)) and _is_error(turn, run, text):
            return text
    unread = _unread_attempt(turn)
    nodes = [*([unread] if unread else []), *_in_order(turn)[-1:], *voices, turn.root]
    return next((error for node in nodes if (error := span_error(node.span))), None)


def _model_calls(models: Sequence[Node]) -> Iterator[ModelCall]:
    """Yield the calls. `sent` is long to read: only a reply that was given to the same question before has it."""
    seen_calls: set[tuple[str | None, str]] = set()
    for node in models:
        call = _model_call(node)
        if call.output is not None:
            pair = (call.question.newest if call.question else None, call.output)
            if pair in seen_calls:
                call = replace(call, sent=sent_of(node.span.attributes))
            seen_calls.add(pair)
        yield call


def _model_call(node: Node) -> ModelCall:
    facts, span = node.facts, node.span
    output = _text(facts)
    return ModelCall(
        span_id=node.id,
        model=facts.model,
        agent=node.agent,
        agent_run=node.agent_run,
        question=question_of(span.attributes),
        output=output,
        finish_reason=_finish_reason(facts),
        usage=_usage(node, answers=output is not None),
        provider=provider_of(span.attributes),
        billed_usd=billed_usd(span.attributes),
        error=span_error(span),
        error_type=error_type(span),
        started_at=span.started_at,
        ended_at=max(span.started_at, span.ended_at),
    )


def _usage(node: Node, *, answers: bool) -> Usage | None:
    """Return the tokens of a model call.

    OpenInference writes the calls of Google ADK's runs on the span of the run, each over the one before. If tools ran
    within it before it answers, the tokens of other calls are lost.
    """
    usage = node.facts.usage
    if usage is None or not answers or not node.children or not node.span.name.startswith(_RUN):
        return usage
    roles = {within.role for child in node.children for within in child.below()}
    return replace(usage, is_partial=True) if SpanRole.TOOL in roles and SpanRole.MODEL not in roles else usage


def _finish_reason(facts: SpanFacts) -> str | None:
    """Return why a model ended its reply: by its span, else by the first message that tells."""
    reason = facts.finish_reason or next(filter(None, (reply.finish_reason for reply in facts.replies)), None)
    return reason[:MAX_REASON] if reason else None


def _reasoning(models: Sequence[Node]) -> tuple[str, ...]:
    """Return the thoughts in replies. Those of the Responses API stand only in what the next call is sent back."""
    texts = [text for message in _sent_back(models) for text in message.reasoning]
    for model in models:
        texts += [text for message in model.facts.replies for text in message.reasoning]
        texts += filter(None, [model.facts.reasoning])
    return tuple(dict.fromkeys(texts))


def _plan(turn: TurnNodes) -> tuple[str, ...]:
    """Return replies of planning calls, and texts beside tool requests. Such a request may stand only in what the next
    call is sent back."""
    beside_requests = {message.text for message in _sent_back(turn.models) if message.requests}
    return tuple(
        text
        for node in turn.models
        if (text := _text(node.facts)) and (node.facts.requests or node.id in turn.planners or text in beside_requests)
    )


def _sent_back(models: Sequence[Node]) -> Sequence[ChatMessage]:
    """Return what the last model call was sent since the user's last message; nothing if it is the only call."""
    return models[-1].facts.steps if len(models) > 1 else ()


def _recall_replies(models: Sequence[Node]) -> None:
    """Complete replies that were recorded empty, from what the next model call of the turn was sent."""
    for model, following in pairwise(models):
        if _is_empty(model) and (reply := _reply_in(following, model)):
            model.facts = replace(model.facts, output=Content(partial(list, [reply])))


def _is_empty(model: Node) -> bool:
    output = model.facts.output
    if output is None or output.cut or span_error(model.span):
        return False
    return not any(message.texts or message.requests or message.reasoning for message in output.messages)


def _reply_in(following: Node, model: Node) -> ChatMessage | None:
    """Return the message that `following` was sent after all that `model` was sent: the reply of `model`. None if
    the user spoke since."""
    sent, later = model.facts.input, following.facts.input
    if sent is None or later is None or sent.cut or later.cut:
        return None
    end = len(sent.messages)
    steps = later.since_user()
    is_step = len(later.messages) - len(steps) <= end < len(later.messages)
    if not is_step or later.messages[:end] != sent.messages or later.messages[end].role != ASSISTANT:
        return None
    return later.messages[end]
