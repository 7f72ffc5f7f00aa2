"""What was read of spans goes with the last who looks at it: the garbage collector would find it late, and dear."""

import gc

from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.conventions.tree import Node
from tests.support.spans import agent, answer, asks, chat, told, tool, user


def nodes_in_memory() -> int:
    return sum(type(each) is Node for each in gc.get_objects())


def test_a_trace_that_was_read_leaves_no_tree_behind() -> None:
    call = asks("search", {"page": 1}, "c")
    spans = [
        agent("root", "planner", until=100),
        chat("first", [user("Hi")], [call], parent="root", at=1),
        tool("found", "search", {"page": 1}, "nothing", parent="root", at=20, call_id="c"),
        chat("second", [user("Hi"), call, told("nothing", "c")], [answer("None.")], parent="root", at=40),
    ]
    gc.collect()
    before = nodes_in_memory()
    gc.disable()
    try:
        trace = read_trace("t", spans)
        assert nodes_in_memory() == before
    finally:
        gc.enable()
    assert trace.output == "None."
