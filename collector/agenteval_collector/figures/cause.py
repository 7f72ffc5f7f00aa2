"""Find the first decisive step of what went wrong in a trace or a session: where to look first.

It is the first of these facts, in the order of turns and of calls within a turn:
- a call of a tool that failed, after which no call of the same tool worked
- the first step of a loop
- of several agents, the first reply with figures that nobody said before
- an error that is no step of a tool: the failed call of the model in a failed turn, an empty answer, a turn that ended
  in an error, an agent that died
If there is none, it is the first call that failed, though the tool worked later.

If the judge says in which turn or at which step a session went wrong (`goal_success`), its word counts instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from agenteval_collector.model.judge_jobs import FAILED_AGENT, FAILED_SPAN, FAILED_TURN, GOAL_SUCCESS
from agenteval_collector.model.trace_view import TraceView
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding, FindingKind, Severity
from otel_agenteval.internal.text import cut
from otel_agenteval.model import CallOutcome, ToolCall

MAX_WHAT: Final = 300
"""Characters of what went wrong."""
UNSAID_FIGURES: Final = "unsaid_figures"
"""What tells a cause that is a reply with figures that nobody said before."""
_RECOVERS: Final = frozenset({CallOutcome.WORKED, CallOutcome.NOTHING})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisiveStep:
    """The first decisive step. `turn` counts from 0 within the trace. `told_by` is the kind of finding,
    `UNSAID_FIGURES`, or `goal_success` if the judge says so. None: not known."""

    trace_id: str | None
    span_id: str | None
    turn: int | None
    agent: str | None
    what: str
    told_by: str


def cause_of_trace(view: TraceView, findings: Sequence[Finding]) -> DecisiveStep | None:
    """Return the first decisive step of a trace in which something went wrong; None if no step shows it."""
    lasting, recovered = _failed_calls(view)
    candidates = [*lasting, *_found(view, findings), *_doubted(view)]
    # What was made good may still have led astray: it counts if nothing else is known.
    candidates = candidates or recovered
    return min(candidates, key=lambda candidate: candidate[0], default=(None, None))[1]


def cause_by_judge(
    metadata: Mapping[str, Any], reason: str, traces: Sequence[TraceView], first: Mapping[str, int]
) -> DecisiveStep | None:
    """Return the step at which the judge says that a session went wrong; None if it names none.

    `metadata` and `reason` are those of its `goal_success`, `first` is the place of each trace's first turn in the
    session. `traces` are in the order of their start.
    """
    number = metadata.get(FAILED_TURN)
    if not isinstance(number, int):
        return None
    view = next((view for view in reversed(traces) if first[view.trace_id] < number), None)
    return DecisiveStep(
        trace_id=None if view is None else view.trace_id,
        span_id=metadata.get(FAILED_SPAN),
        turn=None if view is None else number - 1 - first[view.trace_id],
        agent=metadata.get(FAILED_AGENT) or (view.agents[0] if view is not None and len(view.agents) == 1 else None),
        what=cut(reason, MAX_WHAT),
        told_by=GOAL_SUCCESS,
    )


_Place = tuple[float, float]
"""The turn, and the call within it."""


def _failed_calls(view: TraceView) -> tuple[list[tuple[_Place, DecisiveStep]], list[tuple[_Place, DecisiveStep]]]:
    """Return the failed calls after which no call of the same tool worked, and the others."""
    lasting: list[tuple[_Place, DecisiveStep]] = []
    recovered: list[tuple[_Place, DecisiveStep]] = []
    calls = _calls(view)
    working = {call.name: place for place, call in calls if call.outcome in _RECOVERS}
    for place, call in calls:
        if call.outcome is CallOutcome.FAILED:
            what = f"{call.name} failed: {call.error}" if call.error else f"{call.name} failed"
            agent = call.agent or _only_agent(view)
            failed = place, _cause(view, place, call.span_id, agent, what, FindingKind.TOOL_FAILED)
            (recovered if working.get(call.name, place) > place else lasting).append(failed)
    return lasting, recovered


def _found(view: TraceView, findings: Sequence[Finding]) -> Iterator[tuple[_Place, DecisiveStep]]:
    failed_turns = {place for place, turn in enumerate(view.turns) if turn.error is not None or turn.output is None}
    calls = _calls(view)
    for finding in findings:
        turn = len(view.turns) if finding.turn is None else finding.turn
        if finding.kind in LOOP_KINDS:
            place, span_id = _first_of_loop(calls, finding) or ((turn, inf), finding.span_id)
        elif finding.severity is Severity.ERROR or (
            finding.kind == FindingKind.MODEL_FAILED and finding.turn in failed_turns
        ):
            place, span_id = (turn, inf), finding.span_id
        else:
            continue
        agent = finding.agent or _only_agent(view)
        yield place, _cause(view, place, span_id, agent, finding.reason, finding.kind)


def _doubted(view: TraceView) -> Iterator[tuple[_Place, DecisiveStep]]:
    if (step := view.doubtful) is not None:
        place = step.turn, step.calls_before - 0.5  # After the call before it.
        yield place, _cause(view, place, step.span_id, step.agent, step.what, UNSAID_FIGURES)


def _first_of_loop(calls: Sequence[tuple[_Place, ToolCall]], finding: Finding) -> tuple[_Place, str | None] | None:
    """Return the first call that is equal to the one at which a loop was found."""
    last = next((call for _, call in calls if call.span_id == finding.span_id and call.span_id), None)
    if last is None:
        return None
    same = ((place, call) for place, call in calls if (call.name, call.arguments) == (last.name, last.arguments))
    place, call = next(same)
    return place, call.span_id


def _calls(view: TraceView) -> list[tuple[_Place, ToolCall]]:
    return [
        ((number, index), call) for number, turn in enumerate(view.turns) for index, call in enumerate(turn.tool_calls)
    ]


def _only_agent(view: TraceView) -> str | None:
    return view.agents[0] if len(view.agents) == 1 else None


def _cause(
    view: TraceView, place: _Place, span_id: str | None, agent: str | None, what: str, told_by: str
) -> DecisiveStep:
    return DecisiveStep(
        trace_id=view.trace_id,
        span_id=span_id,
        turn=int(place[0]) if place[0] < len(view.turns) else None,
        agent=agent,
        what=cut(what, MAX_WHAT),
        told_by=str(told_by),
    )
