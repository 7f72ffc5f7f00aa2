"""Habits of senders are known by the histories of their traces."""

from itertools import product
from typing import Any

import pytest
from agenteval_collector.assembly.senders import LAST, Senders, Usual
from agenteval_collector.config.settings import SenderConfig
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.model.senders import Awaited, Habit, Sender
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.otlp import span

CHAT = Sender("default", "shop", "lib", "chat")
PARENT = Habit(CHAT, Awaited.PARENT)
ORIGIN = Origin(b"", "lib", None, "shop")


@pytest.mark.parametrize(
    ("history", "usual"),
    [
        ("", Usual.UNKNOWN),
        ("-", Usual.UNKNOWN),
        ("--", Usual.NEVER),
        ("--------", Usual.NEVER),
        ("+", Usual.COMES),
        ("+-", Usual.MIXED),
        ("+++-", Usual.COMES),
        ("-+", Usual.MIXED),
        ("------++", Usual.MIXED),
        ("--++++++", Usual.COMES),
        ("---+++++", Usual.MIXED),
    ],
)
def test_a_habit_is_judged_by_its_last_traces(history: str, usual: Usual) -> None:
    assert Senders([(PARENT.digest, history)]).usual(PARENT) is usual


def test_only_the_last_traces_count() -> None:
    senders = Senders()
    for _ in range(LAST):
        senders.came(PARENT)
    for _ in range(LAST - 1):
        senders.missed(PARENT)
    assert senders.usual(PARENT) is Usual.MIXED
    senders.missed(PARENT)
    assert senders.usual(PARENT) is Usual.NEVER


def test_what_comes_after_all_takes_the_place_of_the_newest_miss() -> None:
    senders = Senders([(PARENT.digest, "--")])
    senders.came(PARENT, after_all=True)
    senders.came(PARENT, after_all=True)
    assert senders.unsaved() == {PARENT.digest: "++"}


def test_habits_are_bounded_and_the_one_that_was_not_learned_of_for_longest_is_forgotten() -> None:
    habits = [Habit(CHAT._replace(operation=f"op {number}"), Awaited.PARENT) for number in range(4)]
    senders = Senders(capacity=3)
    for habit in (*habits[:3], habits[0]):
        senders.came(habit)
    senders.missed(habits[3])
    digests = [habit.digest for habit in habits]
    assert senders.unsaved() == dict(zip(digests, ("++", "", "+", "-"), strict=True))
    assert senders.usual(habits[1]) is Usual.UNKNOWN


def test_what_an_earlier_process_has_learned_is_gone_on_with_when_its_spans_come() -> None:
    habits = [Habit(CHAT._replace(operation=f"op{number}"), Awaited.PARENT) for number in range(4)]
    senders = Senders([(habit.digest, "-") for habit in habits], capacity=3)
    # More than fit are forgotten in the store, too.
    assert senders.unsaved() == {habits[3].digest: ""}
    made = span(1, 1)
    made.name = "op1"
    senders.habits(made, made.SerializeToString(), ORIGIN, "default")
    for habit in habits:
        senders.missed(habit)
    assert [senders.usual(habit) for habit in habits[1:]] == [Usual.NEVER, Usual.NEVER, Usual.UNKNOWN]


def test_two_senders_have_no_digest_in_common() -> None:
    names = ("", "a", "b", "ab", "\ud800")
    habits = {Habit(Sender("default", *some), what) for some in product(names, repeat=3) for what in Awaited}
    assert len({habit.digest for habit in habits}) == len(habits) == 500


def test_what_was_saved_is_not_saved_again_unless_it_has_changed_since() -> None:
    senders = Senders()
    senders.came(PARENT)
    saved = senders.unsaved()
    senders.missed(PARENT)
    senders.saved(saved)
    assert senders.unsaved() == {PARENT.digest: "+-"}
    senders.saved(senders.unsaved())
    assert senders.unsaved() == {}
    for _ in range(LAST):
        senders.came(PARENT)
    senders.saved(senders.unsaved())
    senders.came(PARENT)
    assert senders.unsaved() == {}, "a steady sender costs no writing"


def named(name: str, operation: str | None = None) -> Span:
    attributes: dict[str, Any] = {} if operation is None else {"gen_ai__operation__name": operation}
    made = span(1, 1, **attributes)
    made.name = name
    return made


@pytest.mark.parametrize(
    ("made", "operation"),
    [
        pytest.param(named("chat gpt-4o", "generate_content"), "generate_content", id="its operation"),
        pytest.param(named("chat gpt-4o"), "chat", id="else the first word of its name"),
        pytest.param(named("run", ""), "run", id="an empty operation is none"),
        pytest.param(named(""), "", id="no name"),
        pytest.param(named("x" * 500), "x" * 200, id="a name without end"),
    ],
)
def test_spans_are_told_apart_by_their_operation(made: Span, operation: str) -> None:
    habits = Senders().habits(made, made.SerializeToString(), ORIGIN, "default")
    assert habits.parent == {Habit(CHAT._replace(operation=operation), Awaited.PARENT)}


def test_names_are_remembered_within_bounds() -> None:
    senders = Senders(capacity=10)
    for number in range(100):
        made = named(f"name-{number}")
        habits = senders.habits(made, made.SerializeToString(), ORIGIN, "default")
        assert habits.parent == {Habit(CHAT._replace(operation=made.name), Awaited.PARENT)}
    assert len(senders._named) <= 10


@pytest.mark.parametrize(
    ("rules", "what", "usual"),
    [
        pytest.param(SenderConfig(outermost=("chat",)), Awaited.PARENT, Usual.NEVER, id="outermost"),
        pytest.param(SenderConfig(outermost=("chat",)), Awaited.PARENT_OF_FAILED, Usual.NEVER, id="a failed one"),
        pytest.param(SenderConfig(outermost=("run",)), Awaited.PARENT, Usual.COMES, id="another operation"),
        pytest.param(SenderConfig(remote_parents="wait"), Awaited.REMOTE_PARENT, Usual.COMES, id="remote parents come"),
        pytest.param(
            SenderConfig(remote_parents="ignore"), Awaited.REMOTE_PARENT, Usual.NEVER, id="remote parents do not"
        ),
        pytest.param(SenderConfig(), Awaited.REMOTE_PARENT, Usual.COMES, id="nothing set"),
        pytest.param(SenderConfig(logs=True), Awaited.LOGS, Usual.COMES, id="log records come"),
        pytest.param(SenderConfig(logs=False), Awaited.LOGS, Usual.NEVER, id="log records do not"),
    ],
)
def test_what_is_set_outranks_what_was_learned(rules: SenderConfig, what: Awaited, usual: Usual) -> None:
    habit = Habit(CHAT, what)
    assert Senders([(habit.digest, "+")], {"shop": rules}).usual(habit) is usual


LOGS = Habit(CHAT, Awaited.LOGS)
OPENAI_LOGS = Habit(CHAT._replace(scope="opentelemetry.instrumentation.openai_v2"), Awaited.LOGS)


@pytest.mark.parametrize(
    ("habit", "history", "rules", "sentence"),
    [
        pytest.param(
            PARENT, "", None,
            "it is not known whether the local parent of chat spans of shop (lib) comes: "
            "none of its traces was complete before",
            id="nothing is known",
        ),
        pytest.param(
            LOGS, "-", None,
            "it is not known whether the log records of chat spans of shop (lib) come: "
            "they did not come in its last trace",
            id="one trace tells too little",
        ),
        pytest.param(
            LOGS, "--", None,
            "the log records of chat spans of shop (lib) never come: they came in 0 of its last 2 traces",
            id="several never come",
        ),
        pytest.param(
            LOGS, "+-", None,
            "the log records of chat spans of shop (lib) come sometimes: they came in 1 of its last 2 traces",
            id="several come sometimes",
        ),
        pytest.param(
            PARENT, "+", None,
            "the local parent of chat spans of shop (lib) comes: it came in its last trace",
            id="one trace is no plural",
        ),
        pytest.param(
            OPENAI_LOGS, "", None,
            "the log records of chat spans of shop (opentelemetry.instrumentation.openai_v2) come: "
            "its instrumentation is known for that",
            id="known of its scope",
        ),
        pytest.param(
            LOGS, "--", SenderConfig(logs=True),
            "the log records of chat spans of shop (lib) come: so assembly.senders says",
            id="set by hand",
        ),
        pytest.param(
            Habit(Sender("default", "", "", ""), Awaited.PARENT), "--", None,
            "the local parent of unnamed spans of a service without a name (no scope) never comes: "
            "it came in 0 of its last 2 traces",
            id="without names",
        ),
    ],
)  # fmt: skip
def test_a_habit_is_told_in_a_sentence(habit: Habit, history: str, rules: SenderConfig | None, sentence: str) -> None:
    senders = Senders([(habit.digest, history)] if history else [], {} if rules is None else {"shop": rules})
    assert senders.describe(habit) == sentence
