"""Users of one service who say the same words, traces that are lost, any order of arrival: nobody meets anybody."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.conversations import Bench
from tests.support.inputs import inputs
from tests.support.spans import answer, asks, chat, told, user


class Said(NamedTuple):
    """A model call, and whose it is."""

    who: int
    sent: list[Any]
    received: dict[str, Any]
    trace: Trace


class Turn(NamedTuple):
    """A question, the calls of tools with their results, and an answer, of words that others say as well."""

    question: str
    calls: list[tuple[str, str]]
    answer: str


class Arrival(NamedTuple):
    """The traces of several conversations as they arrive, some of them lost."""

    all: list[Said]
    order: list[Said]
    size: int

    def drawn(self) -> list[list[Said]]:
        """The sessions that are made of those that arrived, each by start, and by id where that is the same."""
        bench = Bench()
        for first in range(0, len(self.order), self.size):
            bench.take(*(each.trace for each in self.order[first : first + self.size]))
        sessions: dict[str, list[Said]] = {}
        for each in sorted(self.order, key=lambda each: (each.trace.started_at, each.trace.trace_id)):
            sessions.setdefault(bench.sessions[each.trace.trace_id], []).append(each)
        return list(sessions.values())


def turns(calls: st.SearchStrategy[list[tuple[str, str]]]) -> st.SearchStrategy[Turn]:
    return st.builds(Turn, st.just("Hi"), calls, st.sampled_from(["Hello.", "Fine."]))


CALL = st.tuples(st.just("a"), st.sampled_from(["10", "20"]))
CALLS = st.lists(CALL, max_size=2)
CONVERSATION = st.lists(turns(CALLS), min_size=1, max_size=3)
CALLING = st.builds(
    lambda first, others: [first, *others],
    turns(st.lists(CALL, min_size=1, max_size=2)),
    st.lists(turns(CALLS), max_size=2),
)


@st.composite
def arrivals(draw: st.DrawFn, conversations: st.SearchStrategy[list[Turn]], ids: list[str]) -> Arrival:
    """`ids`: how calls are known, `own`: by ids of their own, `equal`: by their number in the turn, `none`: not."""
    how = draw(st.sampled_from(ids))
    said: list[Said] = []
    for who, conversation in enumerate(draw(st.lists(conversations, min_size=1, max_size=3))):
        history: list[Any] = []
        at = draw(st.integers(0, 30))
        for turn in conversation:
            history.append(user(turn.question))
            for number, (argument, result) in enumerate(turn.calls):
                call_id = {"own": f"c{len(said)}", "equal": f"c{number}", "none": None}[how]
                request = asks("f", {"x": argument}, call_id)
                said.append(_said(who, history, request, at, len(said)))
                history += [request, told(result, call_id)]
                at += draw(st.integers(1, 9))
            said.append(_said(who, history, answer(turn.answer), at, len(said)))
            history.append(answer(turn.answer))
            at += draw(st.integers(1, 9))
    lost = draw(st.sets(st.sampled_from(range(len(said))), max_size=len(said) // 2))
    order = [said[at] for at in draw(st.permutations(range(len(said)))) if at not in lost]
    return Arrival(said, order, draw(st.sampled_from([1, 3, 100])))


def _said(who: int, history: list[Any], received: dict[str, Any], at: int, number: int) -> Said:
    sent = list(history)
    return Said(who, sent, received, read_trace(f"t{number}", [chat("m", sent, [received], at=at)]))


@settings(max_examples=inputs(3))
@given(arrivals(CALLING, ["own"]))
def test_who_is_told_apart_by_the_ids_of_calls_is_never_in_a_session_with_another(arrival: Arrival) -> None:
    sessions = arrival.drawn()
    whose = [{each.who for each in session} for session in sessions]
    assert all(len(users) == 1 for users in whose)
    if len(arrival.order) == len(arrival.all):
        assert len(sessions) == len({each.who for each in arrival.all})


@settings(max_examples=inputs(3))
@given(arrivals(CONVERSATION, ["own", "equal", "none"]))
def test_a_call_is_in_a_session_only_if_it_was_sent_all_that_was_said_there(arrival: Arrival) -> None:
    for session in arrival.drawn():
        for each in session[1:]:
            assert any(_goes_on(each, before) for before in session)


def _goes_on(call: Said, before: Said) -> bool:
    """Whether a call was sent all that an earlier one was sent and replied, word by word, and no other reply since."""
    known = [*before.sent, before.received]
    since = call.sent[len(known) :]
    return call.sent[: len(known)] == known and all(each["role"] != "assistant" for each in since)
