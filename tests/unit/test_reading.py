"""What is read of a trace that was assembled."""

from agenteval_collector.evaluation.reading import MAX_SPANS, TraceReader

from tests.support.otlp import span
from tests.support.scoring import assembled


def test_of_a_trace_without_end_the_beginning_and_the_end_are_read_and_it_says_so() -> None:
    tools = [
        span(1, number, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name=f"tool {number}")
        for number in range(2, MAX_SPANS + 2)
    ]
    root = span(1, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    trace = TraceReader()(assembled(*tools, root))
    assert (trace.span_count, trace.partial, trace.agents) == (MAX_SPANS + 1, True, ("guide",))
    names = {call.name for call in trace.tool_calls}
    assert len(names) == MAX_SPANS - 1
    assert {"tool 2", f"tool {MAX_SPANS + 1}"} <= names


def test_a_trace_that_fits_is_read_whole() -> None:
    trace = TraceReader()(assembled(*(span(1, number) for number in range(1, 11))))
    assert (trace.span_count, trace.partial) == (10, False)
