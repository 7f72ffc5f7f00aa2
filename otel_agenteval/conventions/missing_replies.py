"""Replies that were recorded empty, found again with their requests in what the next model call was sent."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.failures import span_error
from otel_agenteval.conventions.messages import ASSISTANT, Message
from otel_agenteval.conventions.tree import Node


def recall_replies(models: Sequence[Node]) -> None:
    """Complete the replies of a turn's model calls, given by start time."""
    for model, following in pairwise(models):
        if _is_empty(model) and (reply := _sent_back(model, following)):
            model.facts = replace(model.facts, output=Content(partial(list, [reply])))


def _is_empty(model: Node) -> bool:
    output = model.facts.output
    if output is None or output.cut or span_error(model.span):
        return False
    return not any(each.texts or each.requests or each.reasoning for each in output.messages)


def _sent_back(model: Node, following: Node) -> Message | None:
    """Return the message behind all that `model` was sent, in the next call; None where the user spoke since."""
    sent, later = model.facts.input, following.facts.input
    if sent is None or later is None or sent.cut or later.cut:
        return None
    end = len(sent.messages)
    steps = later.since_user()
    is_step = len(later.messages) - len(steps) <= end < len(later.messages)
    if not is_step or later.messages[:end] != sent.messages or later.messages[end].role != ASSISTANT:
        return None
    return later.messages[end]
