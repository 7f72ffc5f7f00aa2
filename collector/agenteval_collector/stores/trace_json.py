"""The view of a trace as the JSON that its row holds, and back."""

import json
from dataclasses import asdict
from typing import Any

from agenteval_collector.model.assembled import ClosedBy, Closing
from agenteval_collector.model.running import OpenSpan
from agenteval_collector.model.trace_view import TraceView, TurnView
from otel_agenteval.finding import Seen, Visibility
from otel_agenteval.model import ToolCall

_CALL = ("name", "arguments", "result", "error", "span_id", "call_id")
_PLAIN = (
    *("trace_id", "session_id", "names_session", "user_id", "service", "agents", "available_tools", "model_calls"),
    *("started_at", "ended_at", "partial", "continues_turn", "turn_goes_on", "waits_for"),
)
"""The fields that are JSON as they are."""
_REVISED = ("revision", "complete", "span_count", "status_reason")
"""The ones among all fields in which revisions that say the same may differ."""


def view_json(view: TraceView) -> str:
    """The view as text. Field by field: what tools were given and returned may be large, and is not copied."""
    return json.dumps(
        {
            **{name: getattr(view, name) for name in _PLAIN},
            "turns": [
                {
                    "input": turn.input,
                    "output": turn.output,
                    "error": turn.error,
                    "tool_calls": [[getattr(call, name) for name in _CALL] for call in turn.tool_calls],
                }
                for turn in view.turns
            ],
            "results_alone": [[each.call_id, each.result, _has_failed(each)] for each in view.results_alone],
            **_of_revision(view),
        }
    )


def revision_json(view: TraceView) -> str:
    """The fields in which revisions that say the same may differ, as text."""
    return json.dumps(_of_revision(view))


def _has_failed(result: ToolCall) -> bool:
    # Whether words tell of an error depends on the tool, which is not known.
    return result.error is not None and not result.is_error_read


def _of_revision(view: TraceView) -> dict[str, Any]:
    return {
        **{name: getattr(view, name) for name in _REVISED},
        "closing": None if view.closing is None else asdict(view.closing),
        "seen": asdict(view.seen),
        "open_spans": [asdict(span) for span in view.open_spans],
    }


def view_from(text: str, revised: str = "{}") -> TraceView:
    """The view that `text` was made from, with what a later revision says otherwise."""
    fields = json.loads(text) | json.loads(revised)
    closing, seen = fields["closing"], fields["seen"]
    return TraceView(
        **{name: fields[name] for name in (*_PLAIN, *_REVISED)},
        turns=_turns(fields),
        results_alone=[
            ToolCall(name="", call_id=call_id, result=result, error="error" if failed else None)
            for call_id, result, failed in fields["results_alone"]
        ],
        closing=None if closing is None else Closing(**{**closing, "by": ClosedBy(closing["by"])}),
        seen=Seen(**{name: None if sight is None else Visibility(sight) for name, sight in seen.items()}),
        open_spans=[OpenSpan(**span) for span in fields["open_spans"]],
    )


def finished_turns(text: str) -> list[TurnView]:
    """The turns of the view that `text` was made from, but for one that goes on in another trace."""
    fields = json.loads(text)
    turns = _turns(fields)
    return turns[:-1] if fields["turn_goes_on"] else turns


def _turns(fields: dict[str, Any]) -> list[TurnView]:
    return [
        TurnView(
            **{**turn, "tool_calls": [ToolCall(**dict(zip(_CALL, call, strict=True))) for call in turn["tool_calls"]]}
        )
        for turn in fields["turns"]
    ]
