"""The view of a trace as the JSON in its row, and back."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from agenteval_collector.model.assembled_trace import ClosedBy, Closing
from agenteval_collector.model.commit import ScoredTrace
from agenteval_collector.model.largest_kept import largest_kept
from agenteval_collector.model.running_traces import UnendedSpan
from agenteval_collector.model.trace_view import DoubtfulStep, TraceView, TurnView
from agenteval_collector.stores.rows import to_json
from otel_agenteval.finding import Seen, Visibility
from otel_agenteval.model import CallOutcome, ToolCall, UnknownSpans

MOST_CHARACTERS: Final = 1024 * 1024
"""The most characters of the texts of a view, about. Of longer ones the longest texts are cut."""
_CALL = ("name", "arguments", "result", "error", "span_id", "call_id", "agent", "outcome", "told_by")
_NOT_CONTENT = frozenset(("name", "agent", "outcome", "told_by"))
"""The fields of a call that stay when its content is forgotten."""
_GOES_ON = ("continues_turn", "turn_goes_on")
"""The fields that say whether its turns are parts of longer turns."""
_PLAIN = (
    *(
        "trace_id",
        "session_id",
        "names_session",
        "user_id",
        "service",
        "environment",
        "agents",
        "available_tools",
        "model_calls",
        "models",
    ),
    *("started_at", "ended_at", "partial", *_GOES_ON, "waits_for"),
)
"""The fields that are JSON without any conversion."""
_REVISED = ("revision", "complete", "span_count", "status_reason", "closing", "seen", "open_spans", "not_understood")
"""The fields in which revisions that say the same may differ."""


def view_row(trace: ScoredTrace, unasked: str | None = None) -> dict[str, Any]:
    """Make the row with what was said and done in a trace, and the column by `unasked.column_of`."""
    return {"trace_id": trace.trace_id, "unasked": unasked, "view": view_json(trace.view)}


def view_json(view: TraceView) -> str:
    """Return the view as JSON text. Of a call the text holds what was said and what came of it, and not when."""
    alone = [[of_call.call_id, of_call.result, _has_failed(of_call)] for of_call in view.results_alone]
    plain = {name: getattr(view, name) for name in (*_PLAIN, *_REVISED)}
    doubtful = {} if view.doubtful is None else {"doubtful": asdict(view.doubtful)}
    return to_json({**plain, **doubtful, "turns": _said(view), "results_alone": alone})


def _fitted(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut the longest texts of the turns, until all take about `MOST_CHARACTERS`. The spans have them whole."""
    lengths = list(_lengths(said))
    over = sum(lengths) - MOST_CHARACTERS
    if over <= 0:
        return said
    fitted: list[dict[str, Any]] = _cut(said, largest_kept(lengths, over))
    return fitted


def _lengths(value: Any) -> Iterator[int]:
    """Yield the lengths of the texts in a document."""
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _lengths(item)


def _cut(value: Any, most: int) -> Any:
    match value:
        case str() if len(value) > most:
            return f"{value[:most]}… ({len(value) - most:,} more characters: see the span)"
        case dict():
            return {name: _cut(item, most) for name, item in value.items()}
        case list() | tuple():
            return [_cut(item, most) for item in value]
    return value


def says_the_same(text: str, view: TraceView) -> bool:
    """Return whether `text` was made from a view with the same turns as `view`."""
    stored = json.loads(text)
    document = {"turns": _said(view), **{name: getattr(view, name) for name in _GOES_ON}}
    return bool({name: stored[name] for name in document} == json.loads(to_json(document)))


def _said(view: TraceView) -> list[dict[str, Any]]:
    return _fitted(
        [
            {
                "input": turn.input,
                "output": turn.output,
                "error": turn.error,
                "is_orphan": turn.is_orphan,
                "tool_calls": [[getattr(call, name) for name in _CALL] for call in turn.tool_calls],
            }
            for turn in view.turns
        ]
    )


def revision_json(view: TraceView) -> str:
    """Return the fields in which revisions that say the same may differ, as text."""
    return to_json({name: getattr(view, name) for name in _REVISED})


def _has_failed(result: ToolCall) -> bool:
    # Only an error that the recording marks: to read one from words takes the tool, which is not known here.
    return result.error is not None and not result.is_error_read


def view_from(text: str, revised: str = "{}") -> TraceView:
    """Return the view from a `text` by `view_json`. What a later revision says differently (`revised`) replaces its
    fields."""
    fields = json.loads(text) | json.loads(revised)
    closing, closing_seen = fields["closing"], fields["seen"]
    decoded = {
        "turns": _turns(fields),
        "results_alone": [
            ToolCall(name="", call_id=call_id, result=result, error="error" if failed else None)
            for call_id, result, failed in fields["results_alone"]
        ],
        "closing": None if closing is None else Closing(**closing | {"by": ClosedBy(closing["by"])}),
        "seen": Seen(**{name: None if value is None else Visibility(value) for name, value in closing_seen.items()}),
        "not_understood": [
            UnknownSpans(scope, spans, tuple(looks_like))
            for scope, spans, looks_like in fields.get("not_understood", ())
        ],
        "doubtful": None if (doubtful := fields.get("doubtful")) is None else DoubtfulStep(**doubtful),
        "open_spans": [UnendedSpan(**span) for span in fields["open_spans"]],
    }
    return TraceView(**fields | decoded)


def finished_turns(text: str) -> list[TurnView]:
    """Return the turns of the view that `text` was made from, except one that goes on in another trace."""
    fields = json.loads(text)
    turns = _turns(fields)
    return turns[:-1] if fields["turn_goes_on"] else turns


def user_in_view(user_id: str) -> str:
    """Return the text that every text by `view_json` contains if it names this user. A few others may contain it,
    too."""
    return f'"user_id": {to_json(user_id)}'


def user_of(text: str) -> str | None:
    """Return the user that the text by `view_json` names."""
    user_id: str | None = json.loads(text)["user_id"]
    return user_id


def tools_in(text: str) -> set[str]:
    """Return the tools that were called in the trace whose view `text` was made from."""
    name = _CALL.index("name")
    return {call[name] for turn in json.loads(text)["turns"] for call in turn["tool_calls"]}


def without_content(text: str) -> str:
    """Return the text of the view without what was said, given and returned."""
    fields = json.loads(text)
    fields["results_alone"] = []
    fields.pop("doubtful", None)
    for turn in fields["turns"]:
        turn.update(input=None, output=None, error=None)
        turn["tool_calls"] = [
            [value if name in _NOT_CONTENT else None for name, value in zip(_CALL, call, strict=True)]
            for call in turn["tool_calls"]
        ]
    return to_json(fields)


def _turns(fields: dict[str, Any]) -> list[TurnView]:
    return [
        TurnView(**{**turn, "tool_calls": [_call(call) for call in turn["tool_calls"]]}) for turn in fields["turns"]
    ]


def _call(stored: list[Any]) -> ToolCall:
    call = dict(zip(_CALL, stored, strict=True))
    return ToolCall(**call | {"outcome": CallOutcome(call["outcome"])})
