"""What is read of a trace that was assembled."""

from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.evaluation.reading import MAX_SPANS, TraceReader, why_partial
from agenteval_collector.model.assembled_trace import ClosedBy, Closing, Death

from tests.support.otlp import span
from tests.support.scoring import assembled


def test_of_a_trace_without_end_the_beginning_and_the_end_are_read_and_it_says_so() -> None:
    tools = [
        span(1, number, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name=f"tool {number}")
        for number in range(2, MAX_SPANS + 2)
    ]
    root = span(1, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    trace = TraceReader().read(assembled(*tools, root))
    assert (trace.span_count, trace.partial, trace.agents) == (MAX_SPANS + 1, True, ("guide",))
    names = {call.name for call in trace.tool_calls}
    assert len(names) == MAX_SPANS - 1
    assert {"tool 2", f"tool {MAX_SPANS + 1}"} <= names


def test_a_trace_that_fits_is_read_whole() -> None:
    trace = TraceReader().read(assembled(*(span(1, number) for number in range(1, 11))))
    assert (trace.span_count, trace.partial) == (10, False)


SILENT = Closing(by=ClosedBy.SILENCE, reason="nothing more came", partial=True)
DEATH = Death(
    reason="its process fell silent", session_id=None, agent=None, service=None, started_at=0, heard_at=1, open_spans=()
)


@pytest.mark.parametrize(
    ("changes", "dropped", "why"),
    [
        pytest.param({}, 0, None, id="nothing is missing"),
        pytest.param(
            {"closing": replace(SILENT, partial=False)}, 0, None, id="it was closed with all that was expected"
        ),
        pytest.param({"closing": SILENT}, 0, "silence", id="more was expected"),
        pytest.param({"missing": 2}, 0, "lost", id="spans were handed over and did not come"),
        pytest.param({"death": DEATH, "closing": SILENT}, 0, "death", id="its agent died"),
        pytest.param({}, 3, "cut", id="attributes were beyond the sender's limit"),
    ],
)
def test_a_partial_trace_has_a_reason(changes: dict[str, Any], dropped: int, why: str | None) -> None:
    item = span(1, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    item.dropped_attributes_count = dropped
    made = assembled(item)
    for name, value in changes.items():
        setattr(made, name, value)
    assert why_partial(TraceReader().read(made), made) == why
