"""Traces without a session's id are joined to conversations, whatever order they arrive in."""

from collections.abc import Sequence
from typing import Any

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.links import Link
from agenteval_collector.sessions.conversations import Conversations
from agenteval_collector.sessions.conversations.joining import is_fork, link_of, parent_of
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.model import Conversation, Trace, Turn


class MemoryLinks:
    """`LinkStore` on a dict."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}

    def link(self, trace_id: str) -> Link | None:
        return self.links.get(trace_id)

    def ending(self, service: str, key: bytes, called: bytes | None) -> Sequence[Link]:
        return [each for each in self._of(service) if key in each.ends]

    def following(
        self, service: str, keys: Sequence[bytes], called: bytes | None, *, since: int, until: int
    ) -> Sequence[Link]:
        found = [each for each in self._of(service) if each.follows in keys and since <= each.started_at <= until]
        return [each for each in found if called is None or each.asked in (None, called)]

    def _of(self, service: str) -> list[Link]:
        return [each for each in self.links.values() if each.service == service]


class Bench:
    """Takes traces, and knows the session of each as it is now."""

    def __init__(self) -> None:
        self.store = MemoryLinks()
        self.sessions: dict[str, str] = {}

    def take(self, *traces: Trace, revision: int = 1) -> None:
        """In one commit."""
        commit = Commit()
        for trace in traces:
            self.sessions[trace.trace_id] = Conversations(self.store).session_of(trace, revision, commit)
        for move in commit.moves.values():
            self.sessions[move.trace_id] = move.joined
        self.store.links.update(commit.links)


def call(
    trace_id: str, at: int, follows: str = "", says: str = "", *, ids: str = "", asked: str = "", **changes: Any
) -> Trace:
    """A model call that goes on from what is called `follows`, and leaves what is called `says`, having asked for `ids`
    in all."""
    failed = changes.pop("failed", False)
    turn = Turn(span_id="1", input="q", output=None, error="down" if failed else None, started_at=at, ended_at=at + 1)
    words = {"follows": follows, "asked": asked}
    keeps = changes.pop("keeps", False)
    words |= {} if failed else {"said": says, "calls": ids, "called": ids}
    conversation = Conversation(**{name: text.encode() for name, text in words.items() if text}, keeps_calls=keeps)
    return Trace(trace_id=trace_id, started_at=at, turns=(turn,), conversation=conversation, **changes)


FIRST, SECOND, THIRD = call("a1", 1, "", "A1"), call("a2", 2, "A1", "A2"), call("a3", 3, "A2", "A3")


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
            [
                call("a1", 1, "", "A1", ids="i"),
                call("b1", 2, "", "A1", ids="j"),
                call("b2", 3, "A1", "B2", asked="j"),
                call("a2", 4, "A1", "A2", asked="i"),
            ],
            ["a1 a2", "b1 b2"],
            id="but by the ids of the calls that they were asked for",
        ),
        pytest.param(
            [call("a1", 1, "", "A1", ids="i"), call("b2", 3, "A1", "B2", asked="j")],
            ["a1", "b2"],
            id="other ids are of another conversation",
        ),
        pytest.param(
            [
                call("a1", 1, "", "A1", ids="none"),
                call("b1", 2, "", "B1", ids="j"),
                call("b3", 4, "A1", "B3", asked="j"),
                call("a2", 5, "A1", "A2"),
            ],
            ["a1 a2", "b1", "b3"],
            id="a trace that was lost gives its user's words to nobody else",
        ),
        pytest.param(
            [
                call("b1", 1, "", "B1", ids="j"),
                call("a2", 2, "B1", "A2"),
                call("a3", 3, "A2", "A3"),
                call("b2", 4, "B1", "B2", asked="j"),
            ],
            ["a2 a3", "b1 b2"],
            id="who is sent the calls goes on rather than who is not",
        ),
        pytest.param(
            [call("b1", 1, "", "B1", ids="j", keeps=True), call("a2", 2, "B1", "A2")],
            ["a2", "b1"],
            id="where calls of earlier turns are sent, who is sent none is another",
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
            [FIRST, call("a2", 2, "A1", "A2", session_id="given"), call("a3", 3, "A2", "A3")],
            ["a1", "a2", "a3"],
            id="who names a session is in no other",
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


def test_the_id_of_a_session_is_that_of_its_first_trace() -> None:
    bench = Bench()
    bench.take(THIRD)
    bench.take(FIRST)
    assert bench.sessions == {"a3": "a3", "a1": "a1"}
    bench.take(SECOND)
    assert set(bench.sessions.values()) == {"a1"}


def test_a_later_revision_may_name_a_session_and_leaves_the_others_theirs() -> None:
    bench = Bench()
    bench.take(FIRST, SECOND, THIRD)
    bench.take(call("a2", 2, "A1", "A2", session_id="given"), revision=2)
    assert bench.sessions == {"a1": "a1", "a2": "given", "a3": "a3"}


def test_a_later_revision_may_bring_the_words_that_join() -> None:
    bench = Bench()
    bench.take(FIRST, call("a2", 2), THIRD)
    assert len(set(bench.sessions.values())) == 3
    bench.take(SECOND, revision=2)
    assert set(bench.sessions.values()) == {"a1"}


words = st.sampled_from(["", "A", "B", "C", "D"])
calls = st.builds(
    lambda at, follows, says, ids, asked, failed: call(str(at), at, follows, says, ids=ids, asked=asked, failed=failed),
    st.integers(1, 12), words, words, st.sampled_from(["", "i", "j"]), st.sampled_from(["", "i", "j"]), st.booleans(),
)  # fmt: skip


@settings(max_examples=400)
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
    sessions = {}
    for link in sorted(links.values(), key=lambda each: each.place):
        enders = [each for each in links.values() if link.follows and link.follows in (each.said, each.calls)]
        parent = parent_of(link, enders)
        same = [each for each in links.values() if each.follows == link.follows]
        goes_on = parent is not None and not is_fork(link, parent, enders, same)
        sessions[link.trace_id] = sessions[parent.trace_id] if parent and goes_on else link.trace_id
    return sessions
