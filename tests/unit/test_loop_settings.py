"""The rules of the detectors in the agent's process: from options and environment, the same as the collector's."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agenteval_collector.config.sources import ConfigError, load
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors.rules import LoopKind, RuleBook
from otel_agenteval.finding import Mode
from otel_agenteval.loops.settings import LoopSettings, client_rules, loop_settings


def test_nothing_said_is_the_defaults() -> None:
    assert client_rules(None, {}) == client_rules({}, {"AGENTEVAL_ENDPOINT": "x"}) == RuleBook()


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"AGENTEVAL_LOOPS__IDENTICAL_CALL__REPEATS": "5"}, id="a count"),
        pytest.param({"AGENTEVAL_LOOPS__CYCLE__MODE": "off"}, id="off, which YAML reads as false"),
        pytest.param({"AGENTEVAL_LOOPS__HUNG_SPAN__AFTER": "2 min"}, id="a time with a unit"),
        pytest.param({"AGENTEVAL_LOOPS__HUNG_SPAN__AFTER": "1.5"}, id="a time in seconds"),
        pytest.param(
            {"AGENTEVAL_LOOPS__BUDGET__MODE": "alarm", "AGENTEVAL_LOOPS__BUDGET__TOKENS": "9000"}, id="a budget"
        ),
        pytest.param({"AGENTEVAL_LOOPS__REPEATED_ANSWER__MODE": "observe"}, id="what the collector alone looks for"),
        pytest.param(
            {
                "AGENTEVAL_LOOPS__ERROR_STORM__REPEATS": "4",
                "AGENTEVAL_LOOPS__AGENTS__POLLER__IDENTICAL_CALL__MODE": "observe",
            },
            id="an agent of its own, the rest as for all",
        ),
    ],
)
def test_environment_means_the_same_on_both_sides(environ: dict[str, str]) -> None:
    assert client_rules(None, environ) == load(environ=environ).loops.rule_book


def test_name_of_an_agent_is_a_key_as_it_is_written() -> None:
    environ = {"AGENTEVAL_LOOPS__AGENTS__Poller_2__CYCLE__MODE": "off"}
    for rules in (client_rules(None, environ), load(environ=environ).loops.rule_book):
        assert rules.of("Poller_2").cycle.mode is Mode.OFF
        assert rules.of("poller_2").cycle.mode is Mode.ALARM


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"BUDGET__MODE": "alarm"}, "loops.budget.*: .*nothing is bounded: give steps, tokens or seconds"),
        ({"AGENTS__a__BUDGET__MODE": "observe"}, "loops.agents.a.budget.*: .*nothing is bounded"),
        ({"REPEATED_ANSWER__MODE": "loud"}, "loops.repeated_answer.mode.*alarm"),
        ({"REPEATED_ANSWER__REPEATS": "3"}, "loops.repeated_answer.repeats"),
        ({"CYCLE__MODE": "loud"}, "loops.cycle.mode.*alarm"),
        ({"CIRCLE__MODE": "off"}, "loops.circle"),
        ({"AGENTS__a__CIRCLE__MODE": "off"}, "loops.agents.a.circle"),
    ],
)
def test_what_says_nothing_is_named_on_both_sides(environ: dict[str, str], problem: str) -> None:
    environ = {f"AGENTEVAL_LOOPS__{name}": value for name, value in environ.items()}
    for read in (lambda: client_rules(None, environ), lambda: load(environ=environ)):
        with pytest.raises(ValueError, match=problem.replace(": .*", ".*")):
            read()


_KINDS = st.sampled_from([*LoopKind, "repeated_answer", "circle"])
_SETTINGS = st.sampled_from(["mode", "repeats", "after", "steps", "tokens", "seconds", "times"])
_TEXTS = st.one_of(
    st.sampled_from(
        ["off", "OFF", "observe", " alarm", "on", "no", "~", "", "0x10", "1_000", "1:30", "[2]", "2.0", "1e3"]
    ),
    st.integers(-1, 1100).map(str),
    st.builds(
        "{}{}".format, st.floats(0, 9).map(lambda number: round(number, 2)), st.sampled_from(["", "s", " min", "w"])
    ),
    st.text("0123456789 smhd.,", max_size=6),
)
_VALUES = st.one_of(
    _TEXTS,
    st.none(),
    st.booleans(),
    st.integers(-1, 1100),
    st.floats(),
    st.just([]),
    st.just({"a": 1}),
    st.just("\ud800"),
)


def collectors_rules(environ: dict[str, str], loops: dict[str, Any]) -> RuleBook:
    return load(environ=environ, flags={"loops": loops}).loops.rule_book


def outcome(read: Callable[[], RuleBook]) -> RuleBook | str:
    """The rules, or what is wrong with the settings."""
    try:
        return read()
    except ValueError as error:
        return str(error).replace("environment: ", "").replace("flags: ", "")


@given(
    variables=st.dictionaries(st.tuples(st.sampled_from(["", "AGENTS__Bot__"]), _KINDS, _SETTINGS), _TEXTS, max_size=4)
)
def test_a_variable_is_legal_on_both_sides_or_on_none(variables: dict[tuple[str, str, str], str]) -> None:
    environ = {
        f"AGENTEVAL_LOOPS__{agent}{kind}__{name}".replace(kind, kind.upper()): text
        for (agent, kind, name), text in variables.items()
    }
    assert outcome(partial(client_rules, None, environ)) == outcome(partial(collectors_rules, environ, {}))


@given(given_loops=st.dictionaries(_KINDS, st.one_of(_VALUES, st.dictionaries(_SETTINGS, _VALUES)), max_size=3))
def test_a_value_is_legal_on_both_sides_or_on_none(given_loops: dict[str, Any]) -> None:
    for loops in (given_loops, {"agents": {"bot": given_loops}}):
        assert outcome(partial(client_rules, loops, {})) == outcome(partial(collectors_rules, {}, loops))


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        load(environ={"AGENTEVAL_LOOPS__CYCLE__REPEATS": "1"}, flags={"loops": {"circle": {}, "agents": {"a": 3}}})
    assert [line.split(" is ")[0] for line in str(refused.value).splitlines()] == [
        "flags: loops.circle",
        "environment: loops.cycle.repeats",
        "flags: loops.agents.a",
    ]


def test_settings_that_are_shown_can_be_given_again() -> None:
    shown = load(environ={"AGENTEVAL_LOOPS__AGENTS__Poller__CYCLE__MODE": "off"}).model_dump(mode="json")["loops"]
    assert loop_settings(shown).agents["Poller"].cycle.mode is Mode.OFF
    assert loop_settings(load(environ={}).model_dump(mode="json")["loops"]) == LoopSettings()


@pytest.mark.parametrize("text", ['{"cycle": {"mode": "off"}}', "off", ""])
def test_settings_in_one_variable_are_refused_on_both_sides(text: str) -> None:
    environ = {"AGENTEVAL_LOOPS": text}
    for read in (lambda: client_rules(None, environ), lambda: load(environ=environ)):
        with pytest.raises(ValueError, match=r"^AGENTEVAL_LOOPS is set: .*AGENTEVAL_LOOPS__IDENTICAL_CALL__REPEATS=5$"):
            read()


@pytest.mark.parametrize("loops", ["x", "", [], False, 3])
def test_settings_that_are_no_mapping_are_refused(loops: Any) -> None:
    with pytest.raises(ValueError, match=r"^loops is .*: give a mapping of kinds of loops to their rules, as \{"):
        client_rules(loops, {})


def test_options_outrank_the_environment_setting_by_setting() -> None:
    environ = {"AGENTEVAL_LOOPS__CYCLE__REPEATS": "7", "AGENTEVAL_LOOPS__CYCLE__MODE": "observe"}
    rules = client_rules({"cycle": {"repeats": 4}, "agents": {"Poller": {"cycle": {"mode": "off"}}}}, environ)
    assert (rules.default.cycle.repeats, rules.default.cycle.mode) == (4, Mode.OBSERVE)
    assert (rules.of("Poller").cycle.repeats, rules.of("Poller").cycle.mode) == (4, Mode.OFF)


@pytest.mark.parametrize(
    ("loops", "problem"),
    [
        ({"circle": {}}, "loops.circle is no kind of loop"),
        ({"cycle": {"times": 3}}, "loops.cycle.times is no setting: give one of mode, repeats"),
        ({"cycle": {"mode": "loud"}}, "loops.cycle.mode is 'loud': give one of off, observe, alarm"),
        ({"cycle": {"repeats": 1}}, "loops.cycle.repeats is 1: give a whole number from 2 to 1000"),
        ({"cycle": {"repeats": True}}, "loops.cycle.repeats is True"),
        ({"cycle": {"repeats": 2.5}}, "loops.cycle.repeats is 2.5"),
        ({"cycle": 3}, "loops.cycle is 3: give a mapping"),
        ({"hung_span": {"after": 0}}, "loops.hung_span.after is 0"),
        ({"hung_span": {"after": "5 weeks"}}, "loops.hung_span.after is '5 weeks'"),
        ({"agents": {"a": {"repeated_answer": {}}}}, "loops.agents.a.repeated_answer is no kind of loop"),
        ({"agents": ["a"]}, "loops.agents is"),
        (
            {"repeated_answer": {"mode": "loud"}},
            "loops.repeated_answer.mode is 'loud': give one of off, observe, alarm",
        ),
        ({"budget": {"mode": "alarm"}}, "loops.budget.mode is alarm, but nothing is bounded: give steps,"),
    ],
)
def test_what_cannot_be_meant_is_named(loops: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem.replace('.', '[.]')}"):
        client_rules(loops, {})


def test_variable_that_is_a_value_and_a_level_is_named() -> None:
    environ = {"AGENTEVAL_LOOPS__CYCLE": "off", "AGENTEVAL_LOOPS__CYCLE__MODE": "off"}
    with pytest.raises(ValueError, match="AGENTEVAL_LOOPS__CYCLE__MODE"):
        client_rules(None, environ)
