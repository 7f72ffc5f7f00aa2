"""Which rules the detectors work by, and what the settings make of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from agenteval_collector.config.sources import ConfigError, load

from otel_agenteval.detectors.rules import BudgetRule, HungSpanRule, RepetitionRule, RuleBook, Rules
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted
from otel_agenteval.finding import Finding, Mode

SECOND = 1_000_000_000


def call(number: int, agent: str | None = None, tokens: int = 0) -> Step:
    return Step(
        kind=StepKind.MODEL if tokens else StepKind.TOOL,
        name="search",
        span_id=f"{number:016x}",
        agent=agent,
        arguments='{"q": "a"}',
        result="3 hits",
        tokens=tokens,
        started_at=number * SECOND,
        ended_at=(number + 1) * SECOND,
    )


def kinds(rules: Rules, steps: list[Step]) -> list[list[str]]:
    detectors = Detectors("s-1", "t-1", RuleBook(default=rules))
    return [[loop.kind for loop in detectors.observe(step)] for step in steps]


def test_the_settings_have_the_defaults_of_the_detectors() -> None:
    assert load(environ={}).loops.rule_book == RuleBook()


def test_what_is_set_for_all_holds_for_an_agent_that_has_rules_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "loops: {cycle: {repeats: 5}, no_progress: {mode: off}, agents: {poller: {cycle: {mode: observe}}}}"
    )
    book = load(file, {}).loops.rule_book
    assert book.of("poller") == Rules(
        cycle=RepetitionRule(mode=Mode.OBSERVE, repeats=5), no_progress=RepetitionRule(mode=Mode.OFF, repeats=4)
    )
    assert book.of("writer").cycle == book.of(None).cycle == RepetitionRule(repeats=5)


def test_the_environment_adds_to_the_rules_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("loops: {agents: {poller: {hung_span: {after: 1h}}}}")
    environ = {"AGENTEVAL_LOOPS__BUDGET__STEPS": "50", "AGENTEVAL_LOOPS__BUDGET__MODE": "alarm"}
    book = load(file, environ).loops.rule_book
    assert book.of("poller") == Rules(hung_span=HungSpanRule(after=3600), budget=BudgetRule(mode=Mode.ALARM, steps=50))


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        pytest.param("loops: {cycles: {repeats: 3}}", r"loops\.cycles is no kind of loop: give", id="a kind misspelt"),
        pytest.param("loops: {cycle: {repeats: 1}}", r"loops\.cycle\.repeats is 1: .* from 2 to 1000", id="once"),
        pytest.param("loops: {cycle: {mode: on}}", r"loops\.cycle\.mode is True: give one of off", id="a mode"),
        pytest.param(
            "loops: {agents: {a: {cycle: {repeat: 3}}}}",
            r"loops\.agents\.a\.cycle\.repeat is no setting",
            id="an agent's",
        ),
        pytest.param(
            "loops: {agents: {a: 3}}", r"loops\.agents\.a is 3: give a mapping", id="an agent's rules that are none"
        ),
    ],
)
def test_what_is_wrong_with_the_settings_is_named(tmp_path: Path, yaml: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml)
    with pytest.raises(ConfigError, match=message):
        load(file, {})


@pytest.mark.parametrize("repeats", [2, 3, 7])
def test_repeats_say_which_repetition_is_told_of(repeats: int) -> None:
    found = kinds(Rules(identical_call=RepetitionRule(repeats=repeats)), [call(n) for n in range(9)])
    assert found == [["identical_call"] if n == repeats - 1 else [] for n in range(9)]


@pytest.mark.parametrize(
    ("pause", "doubt"),
    [
        pytest.param(15 * SECOND - 1, None, id="just below 15 s"),
        pytest.param(15 * SECOND, "it waited in between", id="15 s"),
    ],
)
def test_an_agent_that_does_nothing_for_15_seconds_before_each_repetition_waits(pause: int, doubt: str | None) -> None:
    detectors = Detectors("s-1", "t-1", RuleBook())
    found: list[Finding] = []
    for number in range(6):
        started_at = number * (SECOND + pause)
        found += detectors.observe(replace(call(number), started_at=started_at, ended_at=started_at + SECOND))
    assert [loop.metadata.get("doubt") for loop in found if loop.kind == "identical_call"] == [doubt]


def test_what_is_off_is_not_told_of() -> None:
    off = RepetitionRule(mode=Mode.OFF)
    assert kinds(Rules(identical_call=off), [call(n) for n in range(9)]) == [[]] * 9


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ALARM])
def test_a_loop_has_the_mode_of_its_rule(mode: Mode) -> None:
    detectors = Detectors("s-1", "t-1", RuleBook(default=Rules(identical_call=RepetitionRule(mode=mode))))
    *_, [loop] = [detectors.observe(call(n)) for n in range(3)]
    assert (loop.mode, loop.is_alarm) == (mode, mode is Mode.ALARM)


def test_an_agent_has_rules_of_its_own() -> None:
    book = RuleBook(agents={"poller": Rules(identical_call=RepetitionRule(repeats=5))})
    detectors = Detectors("s-1", "t-1", book)
    told = [(n, agent) for n in range(9) for agent in ("poller", "writer") if detectors.observe(call(n, agent))]
    assert told == [(2, "writer"), (4, "poller")]


def test_a_loop_says_whose_it_is_and_what_it_rests_on() -> None:
    detectors = Detectors("s-1", "t-1", RuleBook())
    *_, [loop] = [detectors.observe(call(n, "writer")) for n in range(3)]
    assert (loop.kind, loop.agent, loop.tool) == ("identical_call", "writer", "search")
    assert (loop.session_id, loop.trace_id, loop.span_id) == ("s-1", "t-1", f"{2:016x}")
    assert loop.reason == "search was called at least 3 times in a row with the same arguments and the same result"
    assert loop.metadata == {
        "tool": "search",
        "repetitions": 3,
        "span_ids": [f"{n:016x}" for n in range(3)],
    }


@pytest.mark.parametrize(
    ("budget", "over"),
    [
        pytest.param(BudgetRule(mode=Mode.ALARM, steps=4), 4, id="the fifth step of four"),
        pytest.param(BudgetRule(mode=Mode.ALARM, tokens=250), 2, id="300 tokens of 250"),
        pytest.param(BudgetRule(mode=Mode.ALARM, tokens=300), 3, id="all tokens, and more"),
        pytest.param(BudgetRule(mode=Mode.ALARM, seconds=5), 5, id="the sixth second of five"),
        pytest.param(BudgetRule(mode=Mode.ALARM), None, id="no bound"),
        pytest.param(BudgetRule(mode=Mode.OFF, steps=1), None, id="off"),
    ],
)
def test_a_budget_is_told_of_once_when_it_is_exceeded(budget: BudgetRule, over: int | None) -> None:
    found = kinds(Rules(budget=budget), [call(n, tokens=100) for n in range(8)])
    assert found == [["budget"] if n == over else [] for n in range(8)]


def test_time_runs_out_while_nothing_happens() -> None:
    rules = Rules(budget=BudgetRule(mode=Mode.ALARM, seconds=60))
    detectors = Detectors("s-1", "t-1", RuleBook(default=rules))
    detectors.observe(call(0))
    assert detectors.tick(60 * SECOND) == []
    [loop] = detectors.tick(61 * SECOND)
    assert (loop.kind, loop.span_id) == ("budget", f"{0:016x}")
    assert loop.reason == "the agent has used 61 seconds, more than the 60 of its budget"
    assert detectors.tick(62 * SECOND) == []


def test_a_hung_span_names_its_tool_and_how_long_it_is_silent() -> None:
    detectors = Detectors("s-1", "t-1", RuleBook(default=Rules(hung_span=HungSpanRule(after=30))))
    detectors.observe(StepStarted(kind=StepKind.TOOL, name="fetch", span_id="a" * 16, agent="writer", at=0))
    [loop] = detectors.tick(31 * SECOND)
    assert (loop.kind, loop.span_id) == ("hung_span", "a" * 16)
    assert loop.reason == "fetch has been open for 31 s without anything going on"
    assert (loop.agent, loop.tool) == ("writer", "fetch")
    assert loop.metadata == {"tool": "fetch", "silent_seconds": 31.0}
