"""The events of a trace as entries in time order, whole and unshortened.

A turn opens with what the user said and ends with its answer, or the fact that there is none. A model's reply stands
where the model call ended, a tool call where it began, or after the one before it where no span timed it. Reasoning has
no times: the n-th piece stands before the reply of the n-th model call; where there are more pieces than calls, all
stand after what the user said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from otel_agenteval.model import Json, ToolCall, Trace, Turn

INSTRUCTIONS: Final = "instructions"
USER: Final = "user"
REASONING: Final = "reasoning"
PLAN: Final = "plan"
REPLY: Final = "reply"
MODEL_ERROR: Final = "model_error"
TOOL_CALL: Final = "tool_call"
ANSWER: Final = "answer"
NO_ANSWER: Final = "no_answer"
MESSAGE: Final = "message"
"""A text or a tool's result of before the trace, of which is not known who said it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a list. `labels` are ours and short, `values` were recorded and may be of any length."""

    kind: str
    labels: Mapping[str, Json] = field(default_factory=dict)
    values: Mapping[str, Json]

    @property
    def failed(self) -> bool:
        """True for a tool call that failed."""
        return self.values.get("error") is not None


def entries(trace: Trace) -> list[Entry]:
    """List the entries of all turns, numbered from 1; with the turn's number where there are several."""
    found: list[tuple[int, str, Mapping[str, Json]]] = []
    if trace.system_instructions:
        found.append((1, INSTRUCTIONS, {"text": trace.system_instructions}))
    for number, turn in enumerate(trace.turns, 1):
        found += [(number, kind, values) for kind, values in _of_turn(turn)]
    several = len(trace.turns) > 1
    return [
        Entry(
            kind=kind,
            labels={"n": index} | ({"turn": number} if several else {}) | {"kind": kind},
            values=values,
        )
        for index, (number, kind, values) in enumerate(found, 1)
    ]


def entries_of(turn: Turn) -> list[Entry]:
    """List the entries of one turn, without numbers."""
    return [Entry(kind=kind, labels={"kind": kind}, values=values) for kind, values in _of_turn(turn)]


def _of_turn(turn: Turn) -> Iterator[tuple[str, Mapping[str, Json]]]:
    yield USER, {"text": turn.input}
    by_call = turn.reasoning if len(turn.reasoning) <= len(turn.model_calls) else ()
    if not by_call:
        yield from ((REASONING, {"text": text}) for text in turn.reasoning)
    said = {call.output for call in turn.model_calls}
    yield from ((PLAN, {"text": text}) for text in turn.plan if text not in said)
    steps = [*_model_steps(turn, by_call), *_tool_steps(turn)]
    # A model that ends and a tool that begins at the same time: the model has asked for it.
    steps.sort(key=lambda step: step[0])
    yield from ((kind, values) for _, kind, values in steps)
    if turn.output is None:
        yield NO_ANSWER, {"error": turn.error}
    else:
        # A turn may say something and end in an error all the same.
        yield ANSWER, {"text": turn.output, **({"error": turn.error} if turn.error is not None else {})}


def _model_steps(turn: Turn, reasoning: Sequence[str]) -> Iterator[tuple[int, str, Mapping[str, Json]]]:
    plans = frozenset(turn.plan)
    last = next((i for i, call in reversed(list(enumerate(turn.model_calls))) if call.output is not None), None)
    for index, call in enumerate(turn.model_calls):
        if index < len(reasoning):
            yield call.ended_at, REASONING, {"text": reasoning[index]}
        is_answer = index == last and call.output == turn.output
        if call.output and not is_answer:
            yield call.ended_at, PLAN if call.output in plans else REPLY, {"text": call.output}
        if call.error is not None:
            yield call.ended_at, MODEL_ERROR, {"error": call.error}


def _tool_steps(turn: Turn) -> Iterator[tuple[int, str, Mapping[str, Json]]]:
    at = turn.model_calls[0].ended_at if turn.model_calls else turn.started_at
    for call in turn.tool_calls:
        at = call.started_at if call.started_at is not None else at
        yield at, TOOL_CALL, _tool_values(call)


def _tool_values(call: ToolCall) -> dict[str, Json]:
    values: dict[str, Json] = {"tool": call.name, "arguments": call.arguments}
    if call.result is not None:
        values["result"] = call.result
    if call.error is not None:
        values["error"] = call.error
    return values
