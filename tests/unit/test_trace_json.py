"""The view of a trace comes back from the store's JSON as it was."""

from dataclasses import fields, replace

from agenteval_collector.model.assembled_trace import ClosedBy, Closing
from agenteval_collector.model.running_traces import UnendedSpan
from agenteval_collector.model.trace_view import DoubtfulStep, TraceView, TurnView
from agenteval_collector.stores.trace_json import finished_turns, revision_json, view_from, view_json
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.finding import Seen, Visibility
from otel_agenteval.model import ToolCall, UnknownSpans

TEXT = st.none() | st.text() | st.just("\ud800 half of a pair")
JSON = st.recursive(
    TEXT | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SPAN = st.none() | st.just("b7ad6b7169203331")
CALLS = st.builds(ToolCall, name=st.text(), arguments=JSON, result=JSON, error=TEXT, span_id=SPAN, call_id=TEXT)
RESULTS = st.builds(ToolCall, name=st.just(""), call_id=TEXT, result=JSON, error=st.sampled_from((None, "error")))
TURNS = st.builds(TurnView, input=TEXT, output=TEXT, tool_calls=st.lists(CALLS, max_size=3), error=TEXT)
SIGHT = st.none() | st.sampled_from(Visibility)
VIEWS = st.builds(
    TraceView,
    **{name: st.text() for name in ("trace_id", "session_id")},
    **dict.fromkeys(("user_id", "service", "status_reason"), TEXT),
    **{name: st.lists(st.text(), max_size=3) for name in ("agents", "available_tools", "models", "waits_for")},
    **{name: st.integers() for name in ("model_calls", "span_count", "started_at", "ended_at", "revision")},
    **{name: st.booleans() for name in ("names_session", "partial", "continues_turn", "turn_goes_on", "complete")},
    turns=st.lists(TURNS, max_size=3),
    results_alone=st.lists(RESULTS, max_size=2),
    doubtful=st.none()
    | st.builds(
        DoubtfulStep, span_id=st.text(), turn=st.integers(), calls_before=st.integers(), agent=TEXT, what=st.text()
    ),
    closing=st.none()
    | st.builds(
        Closing, by=st.sampled_from(ClosedBy), reason=st.text(), partial=st.booleans(), senders=st.lists(st.text())
    ),
    seen=st.builds(Seen, **{field.name: SIGHT for field in fields(Seen)}),
    not_understood=st.lists(
        st.builds(UnknownSpans, st.text(), st.integers(), st.lists(st.text(), max_size=2).map(tuple)), max_size=2
    ),
    open_spans=st.lists(st.builds(UnendedSpan, st.text(), st.text(), st.integers()), max_size=2),
)


@given(view=VIEWS)
def test_a_view_comes_back_as_it_was(view: TraceView) -> None:
    assert view_from(view_json(view)) == view


@given(view=VIEWS, later=VIEWS)
def test_a_later_revision_changes_only_what_is_of_it(view: TraceView, later: TraceView) -> None:
    of_it = ("revision", "complete", "span_count", "status_reason", "closing", "seen", "open_spans", "not_understood")
    changed = replace(view, **{name: getattr(later, name) for name in of_it})
    assert view_from(view_json(view), revision_json(later)) == changed


@given(view=VIEWS)
def test_a_turn_that_goes_on_elsewhere_is_not_finished(view: TraceView) -> None:
    whole, going_on = replace(view, turn_goes_on=False), replace(view, turn_goes_on=True)
    assert finished_turns(view_json(whole)) == view.turns
    assert finished_turns(view_json(going_on)) == list(view.turns)[:-1]
