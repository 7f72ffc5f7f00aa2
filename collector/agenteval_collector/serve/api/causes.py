"""Look up the first decisive step of a session."""

from collections.abc import Iterable, Sequence
from typing import Final

from agenteval_collector.figures.cause import DecisiveStep, cause_by_judge, cause_of_trace
from agenteval_collector.figures.hit_rate import has_failed
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.serve.api.trace_documents import OutcomeDocument
from agenteval_collector.stores.session_turns import NEWEST, joined_turns
from agenteval_collector.stores.snapshot import Snapshot

CAUSES_TRIED: Final = 5
"""The first flagged traces of a session in which its first decisive step is looked for."""


def session_cause(
    snapshot: Snapshot,
    session_id: str,
    trace_ids: Sequence[str],
    outcomes: Iterable[OutcomeDocument],
    flagged: Sequence[str],
) -> DecisiveStep | None:
    """Return the first decisive step of a session: what the judge says, else that of its first flagged trace.

    If no trace is flagged, but the session failed by its run or its labels, all its traces come into question.
    """
    goals = (outcome for outcome in outcomes if outcome["name"] == GOAL_SUCCESS)
    goal = next((outcome for outcome in goals if outcome["success"] is False), None)
    if goal is not None:
        # The judge numbers the turns of the traces that it is shown.
        shown = trace_ids if len(trace_ids) <= NEWEST else [trace_ids[0], *trace_ids[-NEWEST:]]
        views = snapshot.traces(shown)
        traces = [views[trace_id] for trace_id in shown if trace_id in views]
        _, first = joined_turns(traces)
        if (cause := cause_by_judge(goal["metadata"], goal["reason"] or "", traces, first)) is not None:
            return cause
    in_question = list(flagged)
    if not in_question and (goal is not None or _is_failed(snapshot, session_id)):
        in_question = list(trace_ids)
    in_question = in_question[:CAUSES_TRIED]
    views, findings = snapshot.traces(in_question), snapshot.found_in_traces(in_question)
    causes = (
        cause_of_trace(views[trace_id], findings[trace_id].findings) for trace_id in in_question if trace_id in views
    )
    return next((cause for cause in causes if cause is not None), None)


def tool_of(snapshot: Snapshot, step: DecisiveStep) -> str | None:
    """Return the tool that a step called; None if it called none, or if its trace is not kept."""
    view = snapshot.traces([step.trace_id]).get(step.trace_id) if step.trace_id is not None else None
    calls = (call for turn in (view.turns if view else ()) for call in turn.tool_calls)
    return next((call.name for call in calls if call.span_id == step.span_id is not None), None)


def _is_failed(snapshot: Snapshot, session_id: str) -> bool:
    end = snapshot.session_end(session_id)
    return end is not None and has_failed(end) is True
