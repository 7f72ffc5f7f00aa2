"""A trace as it is shown and stored: what was said and done in it, and why it was taken for complete."""

from collections.abc import Sequence
from typing import Final

from agenteval_collector.model.assembled_trace import Closing, Death
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.running_traces import UnendedSpan
from otel_agenteval.finding import Seen
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import ModelCall, ToolCall, Trace, UnknownSpans

NOTHING_SEEN = Seen()
MOST_MODELS: Final = 5


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class DoubtfulStep:
    """The first reply of several agents with figures that nobody said before, in `turn` (from 0) after `calls_before`
    calls of tools."""

    span_id: str
    turn: int
    calls_before: int
    agent: str | None
    what: str


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A turn of the conversation. None: not recorded. `error` is None if it did not fail. Of each call
    the store keeps what was said and what came of it, and not when."""

    input: str | None
    output: str | None
    tool_calls: Sequence[ToolCall] = ()
    error: str | None = None
    is_orphan: bool = False
    """As in `Turn`."""


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class TraceView:
    """A trace at one revision. Outcomes, findings and labels change later, and stand beside it.

    `session_id` is its session; `names_session`: a span names it. `model_calls` is a number, `available_tools` are
    names, and so are `models`, `MOST_MODELS` at most. Of `results_alone` the store keeps which failed, and not how.
    Only traces of several agents have a `doubtful` step. `status_reason` and `open_spans` are about an agent that died
    in the middle. `effort` is None while the trace goes on; it is stored apart from the view. Times are in nanoseconds
    since the Unix epoch.
    """

    trace_id: str
    session_id: str
    names_session: bool
    user_id: str | None = None
    service: str | None = None
    environment: str | None = None
    agents: Sequence[str] = ()
    turns: Sequence[TurnView] = ()
    available_tools: Sequence[str] = ()
    model_calls: int = 0
    models: Sequence[str] = ()
    span_count: int = 0
    started_at: int = 0
    ended_at: int = 0
    partial: bool = False
    continues_turn: bool = False
    turn_goes_on: bool = False
    results_alone: Sequence[ToolCall] = ()
    doubtful: DoubtfulStep | None = None
    revision: int
    complete: bool
    closing: Closing | None = None
    waits_for: Sequence[str] = ()
    seen: Seen = NOTHING_SEEN
    open_spans: Sequence[UnendedSpan] = ()
    not_understood: Sequence[UnknownSpans] = ()
    status_reason: str | None = None
    effort: Effort | None = None

    @property
    def place(self) -> tuple[int, str]:
        """Its place among the traces of a session: start and id."""
        return self.started_at, self.trace_id


def view_of(
    trace: Trace,
    *,
    revision: int,
    complete: bool,
    session_id: str | None = None,
    death: Death | None = None,
    closing: Closing | None = None,
    waits_for: Sequence[str] = (),
    visibility: Seen = NOTHING_SEEN,
    doubtful: DoubtfulStep | None = None,
) -> TraceView:
    """Make the view of a trace. By default `session_id` is the session that it names, else its own id."""
    return TraceView(
        trace_id=trace.trace_id,
        session_id=session_id or trace.session_id or trace.trace_id,
        names_session=trace.session_id is not None,
        user_id=trace.user_id,
        service=trace.service,
        environment=trace.environment,
        agents=trace.agents,
        turns=tuple(
            TurnView(
                input=turn.input,
                output=turn.output,
                tool_calls=turn.tool_calls,
                error=turn.error,
                is_orphan=turn.is_orphan,
            )
            for turn in trace.turns
        ),
        available_tools=tuple(tool.name for tool in trace.available_tools),
        model_calls=len(trace.model_calls),
        models=_models(trace.model_calls),
        span_count=trace.span_count,
        started_at=trace.started_at,
        ended_at=trace.ended_at,
        partial=trace.partial,
        continues_turn=trace.continues_turn,
        turn_goes_on=trace.turn_goes_on,
        results_alone=trace.results_alone,
        doubtful=doubtful,
        revision=revision,
        complete=complete,
        closing=closing,
        waits_for=waits_for,
        seen=visibility,
        not_understood=trace.unknown_spans,
        open_spans=() if death is None else tuple(death.open_spans),
        status_reason=None if death is None else death.reason,
    )


def _models(calls: Sequence[ModelCall]) -> Sequence[str]:
    return sorted({call.model for call in calls if call.model})[:MOST_MODELS]
