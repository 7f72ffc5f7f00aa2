"""Write a trace as a judge reads it: a compact, ordered transcript, and what came before it.

Both have a budget of tokens. A turn opens with what the user said. It ends with its answer, or with the fact that
there is none. A model's reply stands where the model call ended. A tool call stands where it began, or after the call
before it where no span timed it.

Reasoning has no times. The n-th piece stands before the reply of the n-th model call. If there are more pieces than
calls, all pieces stand after what the user said.

The first request of what came before is always there. From the newest turn back, each turn may take half of the tokens
that are left. So the newest turns are whole, and older ones are shortened. Turns for which nothing is left are left
out.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.fitting import LABELS, Entry, EntryKind, Redact, fit, shown
from otel_agenteval.model import Json, Trace, Turn

GUIDE: Final = """\
The transcript lists what happened, in order ("n"), with the number of the turn where there are several:
- user: what the user said (null: it was not recorded)
- reasoning, plan, reply: what the agent thought, what it said it would do, what it said on the way
- tool_call: a call of a tool with its arguments (null: not recorded), its result, and its error where it failed
- handover: one agent handed over to another one
- agent: the agent that took the step, where several took part
- model_error: a call of the agent's model that failed
- answer: what the agent answered; no_answer: that it gave none, with the error where there was one
- left_out: entries that are not shown, whose numbers are missing
Long texts have their middle left out, as they say themselves. Where a step is shown in short, its texts end in "...".
Where there is "earlier", it lists in the same way what came before in the session (message: a text of which is not \
known who said it). Read it to understand what the user refers to, agreed to or asked for before. Judge only the \
transcript, nothing that was said or done in "earlier"."""
_PARTIAL: Final[Json] = {"kind": "left_out", "text": "[... parts were lost before they were recorded here ...]"}
_WHOLE: Final = (EntryKind.USER, EntryKind.ANSWER, EntryKind.NO_ANSWER)
LEAST_TRANSCRIPT: Final = 300
"""Tokens that a transcript needs at least."""
LEAST: Final = 200
"""Tokens that a turn takes at least. If fewer are left, older turns are left out."""

_GAP: Final[Json] = {"kind": "left_out", "text": "[... older turns left out ...]"}


def entries(trace: Trace) -> list[Entry]:
    """List the entries of all turns, numbered from 1.

    If there are several turns, each entry has the number of its turn.
    """
    numbered = [(number, entry) for number, turn in enumerate(trace.turns, 1) for entry in entries_of(turn)]
    several = len(trace.turns) > 1
    found = {observation.span_id for observation in trace.observations} - {None}
    return [
        replace(
            entry,
            labels={"n": index, **({"turn": number} if several else {}), **entry.labels},
            is_marked=entry.kind == EntryKind.HANDOVER or (entry.kind not in _WHOLE and entry.span_id in found),
        )
        for index, (number, entry) in enumerate(numbered, 1)
    ]


def entries_of(turn: Turn) -> Iterator[Entry]:
    """Yield the entries of one turn, without numbers. Where several agents took part, steps name theirs."""
    yield _entry(EntryKind.USER, turn.span_id, text=turn.input)
    by_call = turn.reasoning if len(turn.reasoning) <= len(turn.model_calls) else ()
    if not by_call:
        yield from (_entry(EntryKind.REASONING, text=text) for text in turn.reasoning)
    outputs = {call.output for call in turn.model_calls}
    yield from (_entry(EntryKind.PLAN, text=text) for text in turn.plan if text not in outputs)
    # If a model call ends and a tool call begins at the same time, the model has asked for the tool. The sort is
    # stable, so the model's step stays first.
    steps = sorted([*_model_steps(turn, by_call), *_tool_steps(turn)], key=itemgetter(0))
    yield from (entry for _, entry in steps)
    if turn.output is None:
        yield _entry(EntryKind.NO_ANSWER, turn.span_id, error=turn.error)
    else:
        # A turn may have an answer and still end in an error.
        saying = next((call.span_id for call in reversed(turn.model_calls) if call.output == turn.output), turn.span_id)
        yield _entry(EntryKind.ANSWER, saying, text=turn.output, **_recorded(error=turn.error))


def _model_steps(turn: Turn, reasoning: Sequence[str]) -> Iterator[tuple[int, Entry]]:
    plans, several = frozenset(turn.plan), _has_several_agents(turn)
    last = next((i for i, call in reversed(list(enumerate(turn.model_calls))) if call.output is not None), None)
    for index, call in enumerate(turn.model_calls):
        who = _recorded(agent=call.agent) if several else {}
        if index < len(reasoning):
            yield call.ended_at, _entry(EntryKind.REASONING, call.span_id, text=reasoning[index], **who)
        is_answer = index == last and call.output == turn.output
        if call.output and not is_answer:
            kind = EntryKind.PLAN if call.output in plans else EntryKind.REPLY
            yield call.ended_at, _entry(kind, call.span_id, text=call.output, **who)
        if call.error is not None:
            yield call.ended_at, _entry(EntryKind.MODEL_ERROR, call.span_id, error=call.error, **who)


def _tool_steps(turn: Turn) -> Iterator[tuple[int, Entry]]:
    at = turn.model_calls[0].ended_at if turn.model_calls else turn.started_at
    several = _has_several_agents(turn)
    for call in turn.tool_calls:
        at = call.started_at if call.started_at is not None else at
        after = _recorded(result=call.result, error=call.error, agent=call.agent if several else None)
        yield (
            at,
            _entry(
                EntryKind.TOOL_CALL, call.span_id or call.asked_by, tool=call.name, arguments=call.arguments, **after
            ),
        )
    at = turn.model_calls[0].ended_at if turn.model_calls else turn.started_at
    for call in turn.handovers:
        at = call.started_at if call.started_at is not None else at
        yield (
            at,
            _entry(EntryKind.HANDOVER, call.span_id, text=call.name, **_recorded(error=call.error, agent=call.agent)),
        )


def _has_several_agents(turn: Turn) -> bool:
    agents = {turn.agent, *(call.agent for call in turn.model_calls), *(call.agent for call in turn.tool_calls)}
    return len(agents - {None}) > 1


def _entry(kind: EntryKind, span_id: str | None = None, /, **values: Json) -> Entry:
    return Entry(kind=kind, labels={"kind": kind}, values=values, span_id=span_id)


def _recorded(**values: Json) -> dict[str, Json]:
    """Return those of the values that were recorded."""
    return {name: value for name, value in values.items() if value is not None}


def question_data(transcript: list[Json], earlier: Sequence[Json]) -> dict[str, Json]:
    """Make the data of a question from a transcript, and from what came before it if there is any."""
    return {"earlier": list(earlier), "transcript": transcript} if earlier else {"transcript": transcript}


def transcript(trace: Trace, budget: int, redact: Redact) -> list[Json]:
    """Write the transcript of `trace` in at most `budget` tokens (300 or more), all of it redacted.

    What the user said first and the last answer are always there, shortened if they are long.
    """
    all_entries = entries(trace)
    head = next((index + 1 for index, entry in enumerate(all_entries) if entry.kind == EntryKind.USER), 0)
    if not trace.partial:
        return fit(all_entries, budget, redact, head=head, tail=1)
    room = budget - tokens(encode([_PARTIAL]))
    return [_PARTIAL, *fit(all_entries, room, redact, head=head, tail=1)]


def earlier(trace: Trace, budget: int, redact: Redact) -> list[Json]:
    """Write what came before `trace` in at most `budget` tokens (160 or more), all of it redacted.

    These are the earlier turns of the session. If none were looked up, they are the messages that the trace was
    sent. Each stands there once.
    """
    turns = [list(entries_of(turn)) for turn in trace.earlier] or [[message] for message in _messages(trace)]
    if not turns:
        return []
    sizes = [_size(turn) for turn in turns]
    room = budget - _cost([_GAP])
    begun = [shown(turns[0][0], room - LABELS if sum(sizes) <= room else room // 4, redact)]
    free = room - _cost(begun)
    later: list[Json] = []
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index] if index else turns[0][1:]
        if free < LEAST:
            return [*begun, _GAP, *later]
        fits = sum(sizes[: index + 1]) <= free
        share = free if fits or not index else max(free // 2, LEAST)
        items = fit(turn, share, redact, head=int(len(turn) > 1), tail=1) if turn else []
        free -= _cost(items)
        later = items + later
    return begun + later


def _messages(trace: Trace) -> list[Entry]:
    """List the messages from before the trace: those that it was sent, up to its own question."""
    history = list(trace.history)
    own = next((index for index in range(len(history) - 1, -1, -1) if history[index] == trace.input), len(history))
    return [_entry(EntryKind.MESSAGE, text=text) for text in history[:own]]


def _cost(items: list[Json]) -> int:
    return tokens(encode(items))


def _size(entries: Sequence[Entry]) -> int:
    """Estimate the tokens of entries as they were recorded."""
    whole = [{**entry.labels, **entry.values} for entry in entries]
    return tokens(json.dumps(whole, ensure_ascii=False))
