"""Traces without a session's id are joined to conversations, whatever order they arrive in."""

from collections.abc import Sequence
from typing import Any

import pytest
from agenteval_collector.evaluation.conversations.linking import RETRY, Conversations, is_fork, link_of, parent_of
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.conversation_links import ConversationLink
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.model import ConversationDigests, Trace, Turn
from tests.support.conversations import Bench, MemoryLinks
from tests.support.inputs import inputs


def call(trace_id: str, at: int, follows: str = "", says: str = "", **changes: Any) -> Trace:
    """A model call that goes on from what is called `follows`, and leaves what is called `says`."""
    failed, ended_at = changes.pop("failed", False), at + changes.pop("lasts", 1)
    turn = Turn(span_id="1", input="q", output=None, error="down" if failed else None, started_at=at, ended_at=ended_at)
    words = {"follows": follows, "said": "" if failed else says}
    words |= {name: changes.pop(name) for name in ("begins", "reply", "calls") if name in changes}
    conversation = ConversationDigests(**{name: text.encode() for name, text in words.items() if text})
    return Trace(
        trace_id=trace_id, started_at=at, ended_at=ended_at, turns=(turn,), conversation=conversation, **changes
    )


FIRST, SECOND, THIRD = call("a1", 1, "", "A1"), call("a2", 2, "A1", "A2"), call("a3", 3, "A2", "A3")


TRIES = (("just in time", RETRY), ("too late", RETRY + 1))


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        pytest.param([FIRST, SECOND, THIRD], ["a1 a2 a3"], id="each call extends the one before"),
        pytest.param([FIRST, call("a2", 3600 * 10**9, "A1", "A2")], ["a1 a2"], id="an hour later"),
        pytest.param([FIRST, call("b1", 2, "", "B1")], ["a1", "b1"], id="two beginnings are two conversations"),
        pytest.param([FIRST, SECOND, call("f", 9, "A1", "F")], ["a1 a2", "f"], id="the second continuation is a fork"),
        pytest.param(
            [FIRST, SECOND, call("f", 3, "A1", "F"), call("g", 4, "F", "G"), THIRD],
            ["a1 a2 a3", "f g"],
            id="what goes on from a fork is in its session",
        ),
        pytest.param(
            [FIRST, call("x", 2, "A1", "A2", failed=True), call("a2", 3, "A1", "A2"), call("a3", 4, "A2", "A3")],
            ["a1 x a2 a3"],
            id="a call that failed may be tried again",
        ),
        pytest.param(
            [FIRST, call("b1", 2, "", "A1"), call("n", 3, "A1", "N"), call("m", 4, "A1", "M")],
            ["a1", "b1", "n", "m"],
            id="two users who were told the same are never told apart, and stay apart",
        ),
        pytest.param(
            [call("a1", 1, "", "A1", user_id="ada"), call("b2", 2, "A1", "B2", user_id="bob")],
            ["a1", "b2"],
            id="another user's words are another conversation",
        ),
        pytest.param(
            [call("a1", 1, "", "A1", service="x"), call("b2", 2, "A1", "B2", service="y")],
            ["a1", "b2"],
            id="so are another service's",
        ),
        pytest.param([call("a2", 1, "A1", "A2"), call("a1", 2, "", "A1")], ["a2", "a1"], id="no future"),
        pytest.param(
            [FIRST, call("a2", 2, "A1", "A2", session_id="x"), THIRD, call("a4", 4, "A3", "A4")],
            ["a1 a2 a3 a4"],
            id="an id that one call names is that of all",
        ),
        pytest.param(
            [FIRST, call("a2", 2, "A1", "A2", session_id="x"), THIRD, call("a4", 4, "A3", "A4", session_id="y")],
            ["a1 a2 a3", "a4"],
            id="of two ids each is that of the calls behind it, and the first of those before it",
        ),
        pytest.param(
            [FIRST, call("f", 2, "A1", "F"), call("a2", 3, "A1", "A2", session_id="x")],
            ["a1 f", "a2"],
            id="a second continuation is another session, also if it is named",
        ),
        pytest.param(
            [
                call("a1", 1, "", "A1", session_id="x"),
                call("f", 2, "A1", "F"),
                call("a2", 3, "A1", "A2", session_id="x"),
            ],
            ["a1 a2", "f"],
            id="but who names the session is in it rather than who does not",
        ),
        pytest.param(
            [
                call("a1", 1, "", "A1", session_id="x"),
                call("b1", 2, "", "A1", session_id="y"),
                call("a2", 3, "A1", "A2", session_id="x"),
                call("n", 4, "A1", "N"),
            ],
            ["a1 a2", "b1", "n"],
            id="who could be of two named sessions is of neither",
        ),
        pytest.param(
            [
                call("x1", 1, begins="A", failed=True, user_id="ada"),
                call("x2", 2, begins="A", failed=True, user_id="ada"),
                call("a1", 3, "", "A1", begins="A", user_id="ada"),
                call("a2", 4, "A1", "A2", user_id="ada"),
                call("b1", 5, "", "A1", begins="A", user_id="ada"),
            ],
            ["x1 x2 a1 a2", "b1"],
            id="a first call that failed is tried again by the same user",
        ),
        pytest.param(
            [
                call("x", 1, begins="A", failed=True, user_id="ada"),
                call("b", 2, "", "B", begins="A", user_id="bob"),
                call("c", 3, "", "C", begins="A"),
                call("a", 70 * 10**9, "", "D", begins="A", user_id="ada"),
            ],
            ["a", "b", "c", "x"],
            id="not by another one, by nobody knows whom, or after a minute",
        ),
        pytest.param(
            [call("a1", 1, "", "A1", reply="r", lasts=2), call("n", 2, reply="r"), call("a2", 4, "A1", "A2")],
            ["a1 n a2"],
            id="the same reply recorded again without words",
        ),
        pytest.param(
            [call("a1", 1, "", "A1", reply="r"), call("n", 5, reply="r"), call("m", 6, reply="r")],
            ["a1", "m", "n"],
            id="but not later: the server gives every reply the same id",
        ),
        pytest.param(
            [call("n", 1, reply="r"), call("m", 2, follows="r", reply="s"), call("o", 3, follows="s", reply="t")],
            ["n m o"],
            id="without any words, by the ids of the replies",
        ),
    ],
)
def test_sessions_are_drawn_as_a_person_would(traces: list[Trace], expected: list[str]) -> None:
    for order in (traces, traces[::-1], traces[1:] + traces[:1], traces[2:] + traces[:2]):
        for size in (1, len(order)):
            bench = Bench()
            for first in range(0, len(order), size):
                bench.take(*order[first : first + size])
            assert drawn(bench) == sorted(expected)


def drawn(bench: Bench) -> list[str]:
    found: dict[str, list[str]] = {}
    for trace_id, session in bench.sessions.items():
        found.setdefault(session, []).append(trace_id)
    at = {trace_id: link.started_at for trace_id, link in bench.store.links.items()}
    return sorted(" ".join(sorted(ids, key=lambda each: at.get(each, 0))) for ids in found.values())


def test_a_failed_first_call_is_tried_again_within_a_minute_of_its_end() -> None:
    failed = link_of(call("x", 1, begins="A", failed=True, user_id="ada"))
    again = [call(name, failed.ended_at + after, "", "D", begins="A", user_id="ada") for name, after in TRIES]
    assert [parent_of(link_of(each), [failed]) for each in again] == [failed, None]


def test_a_call_goes_on_from_none_that_names_another_session() -> None:
    x, y = (link_of(call(name, 1, "", "A1", session_id=name)) for name in "xy")
    later = link_of(call("a2", 2, "A1", "A2", session_id="x"))
    assert parent_of(later, [y]) is None
    assert parent_of(later, [x, y]) == x


def test_the_id_of_a_session_is_that_of_its_first_trace() -> None:
    bench = Bench()
    bench.take(THIRD)
    bench.take(FIRST)
    assert bench.sessions == {"a3": "a3", "a1": "a1"}
    bench.take(SECOND)
    assert set(bench.sessions.values()) == {"a1"}


def test_a_later_revision_may_name_the_session_of_all() -> None:
    bench = Bench()
    bench.take(FIRST, SECOND, THIRD)
    bench.take(call("a2", 2, "A1", "A2", session_id="given"), revision=2)
    assert set(bench.sessions.values()) == {"given"}
    bench.take(SECOND, revision=3)
    assert set(bench.sessions.values()) == {"a1"}


def test_a_late_trace_that_makes_a_named_one_uncertain_gives_its_place_to_an_unnamed_one() -> None:
    first, unnamed = call("a", 2, reply="C", session_id="y"), call("b", 3, follows="C")
    # It starts behind the other one that ends in "C", so that "d" goes on from neither of the two.
    late, named = call("c", 4, begins="A", reply="C", session_id="y"), call("d", 5, follows="C", session_id="y")
    bench = Bench()
    for each in (first, unnamed, named):
        bench.take(each)
    assert bench.sessions["b"] == "b"
    bench.take(late)
    assert bench.sessions["b"] == "y"


def test_a_later_revision_may_bring_the_words_that_join() -> None:
    bench = Bench()
    bench.take(FIRST, call("a2", 2), THIRD)
    assert len(set(bench.sessions.values())) == 3
    bench.take(SECOND, revision=2)
    assert set(bench.sessions.values()) == {"a1"}


def test_where_all_traces_of_a_service_name_their_sessions_none_is_looked_up() -> None:
    bench = Bench()
    for at in range(1, 9):
        bench.take(call(f"a{at}", at, f"A{at - 1}", f"A{at}", session_id="x", service="named"))
    assert bench.store.lookups == 0
    bench.take(call("n", 9, "A8", "N", service="named"))
    assert (bench.sessions["n"], bench.store.lookups > 0) == ("x", True)


words = st.sampled_from(["", "A", "B", "C", "D"])
calls = st.builds(
    lambda at, **changes: call(str(at), at, **changes),
    st.integers(1, 12),
    follows=words,
    says=words,
    begins=words,
    reply=words,
    failed=st.booleans(),
    session_id=st.sampled_from([None, None, "x", "y"]),
    user_id=st.sampled_from([None, None, None, "ada"]),
)


@settings(max_examples=inputs(8))
@given(
    traces=st.lists(calls, max_size=9, unique_by=lambda trace: trace.trace_id),
    order=st.randoms(use_true_random=False),
    size=st.integers(1, 4),
)
def test_sessions_do_not_depend_on_the_order_of_arrival(traces: list[Trace], order: Any, size: int) -> None:
    bench = Bench()
    arriving = list(traces)
    order.shuffle(arriving)
    for first in range(0, len(arriving), size):
        bench.take(*arriving[first : first + size])
    assert bench.sessions == all_at_once(traces)


def all_at_once(traces: Sequence[Trace]) -> dict[str, str]:
    """The sessions by looking at every pair of traces."""
    links = {trace.trace_id: link_of(trace) for trace in traces}
    before: dict[str, ConversationLink] = {}
    for link in links.values():
        enders = [each for each in links.values() if link.follows is not None and link.follows in each.ends]
        parent = parent_of(link, enders)
        same = [each for each in links.values() if each.follows == link.follows]
        if parent is not None and not is_fork(link, parent, enders, same):
            before[link.trace_id] = parent
    return {trace_id: session_of(link, links, before) for trace_id, link in links.items()}


def session_of(link: ConversationLink, links: dict[str, ConversationLink], before: dict[str, ConversationLink]) -> str:
    """Its own name, or the next one before it, or the first one behind the beginning of its conversation."""
    first = link
    while first.named is None and first.trace_id in before:
        first = before[first.trace_id]
    chain, naming = {first.trace_id}, []
    for each in sorted(links.values(), key=lambda each: each.place):
        if each.trace_id in before and before[each.trace_id].trace_id in chain:
            if each.named is None:
                chain.add(each.trace_id)
            else:
                naming.append(each.named)
    return first.named or next(iter(naming), first.trace_id)


def test_a_trace_that_is_only_looked_for_leaves_nothing() -> None:
    conversations, commit = Conversations(MemoryLinks()), Commit()
    conversations.place(FIRST, 1, commit).add_to(commit)
    placed = conversations.place(SECOND, 1, commit)
    assert placed.session_id == "a1", "the one before is in the same commit"
    assert commit.links.keys() == {"a1"}
    placed.add_to(commit)
    assert commit.links.keys() == {"a1", "a2"}
