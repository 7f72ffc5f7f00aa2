"""What a trace adds to its run: actions, resources, cost, violations."""

from typing import Any

import pytest
from agenteval_collector.config.evaluators import SafetyConfig
from agenteval_collector.config.values import PriceConfig
from agenteval_collector.evaluation.personal_data import not_said_before
from agenteval_collector.evaluation.run_trace import MAX_ACTIONS, MAX_NAME, detectors, sum_up
from agenteval_collector.model.prices import TokenPrices
from agenteval_collector.model.runs import RunTrace

from otel_agenteval.model import ModelCall, RunIdentity, RunOutcome, ToolCall, Trace, Turn, Usage

SECOND = 10**9
PRICES = TokenPrices({"gpt-4o": PriceConfig(input=2.0, output=10.0), "gpt-4o-mini": PriceConfig(input=0.1, output=0.4)})
SELLER = ToolCall(name="seller", result={"mail": "ann@example.org"})
PAYER = ToolCall(name="payer", result="4111111111111111")


def model_call(model: str | None = "gpt-4o", usage: Usage | None = None, **more: Any) -> ModelCall:
    given = {"started_at": 0, "ended_at": SECOND, "usage": usage or Usage(input_tokens=1000, output_tokens=100)}
    return ModelCall(span_id="c", model=model, **{**given, **more})


def trace(*turns: Turn, **more: Any) -> Trace:
    given = {"trace_id": "t", "turns": turns, "run": RunIdentity(task_id="refund", run_id="1"), "ended_at": SECOND}
    return Trace(**{**given, **more})


def turn(**facts: Any) -> Turn:
    return Turn(**{"span_id": "a", "input": "", "output": "", "started_at": 0, "ended_at": SECOND, **facts})


def added(given: Trace, safety: SafetyConfig | None = None) -> RunTrace:
    found = sum_up(PRICES.of_calls, detectors(safety or SafetyConfig()), given, "s-1")
    assert found is not None
    return found


def test_a_trace_of_no_run_adds_nothing() -> None:
    assert sum_up(PRICES.of_calls, [], trace(run=None), "s-1") is None


def test_actions_are_the_tool_calls_of_all_turns_and_errors_their_failures() -> None:
    first = turn(tool_calls=(ToolCall(name="search"), ToolCall(name="read", error="Timeout")))
    second = turn(tool_calls=(ToolCall(name="book \ud800"),), model_calls=(model_call(error="overloaded"),))
    found = added(trace(first, second, run_outcome=RunOutcome(success=True, confidence=0.5), ended_at=3 * SECOND))
    assert found.actions == ("search", "read", "book ?")
    assert (found.errors, found.model_calls, found.seconds, found.model_seconds) == (2, 1, 3.0, 1.0)
    assert (found.success, found.confidence, found.session_id) == (True, 0.5, "s-1")


def test_what_a_hostile_trace_can_make_of_actions_is_bounded() -> None:
    calls = tuple(ToolCall(name="x" * 10_000) for _ in range(MAX_ACTIONS + 5))
    found = added(trace(turn(tool_calls=calls)))
    assert len(found.actions) == MAX_ACTIONS
    assert set(map(len, found.actions)) == {MAX_NAME}


@pytest.mark.parametrize(
    ("calls", "usd"),
    [
        pytest.param((), 0.0, id="no call costs nothing"),
        pytest.param((model_call(), model_call("gpt-4o-mini")), 0.00314, id="the prices of each model"),
        pytest.param((model_call("gpt-4o-2024-08-06"),), 0.003, id="a model with a date in its name"),
        pytest.param((model_call("gpt-4o-2024-08-06-mine"),), None, id="another model of a similar name"),
        pytest.param((model_call(), model_call("llama")), None, id="one call without a price"),
        pytest.param((model_call(None),), None, id="a model nobody named"),
        pytest.param((model_call(usage=Usage(input_tokens=0, output_tokens=0)),), 0.0, id="no tokens cost nothing"),
        pytest.param((model_call(usage=Usage()),), None, id="tokens that nobody counted"),
    ],
)
def test_cost_is_known_for_priced_calls_only(calls: tuple[ModelCall, ...], usd: float | None) -> None:
    assert added(trace(turn(model_calls=calls))).usd == (None if usd is None else pytest.approx(usd))


def test_a_call_without_usage_has_no_cost() -> None:
    call = ModelCall(span_id="c", model="gpt-4o", started_at=0, ended_at=1)
    assert added(trace(turn(model_calls=(call,)))).usd is None


@pytest.mark.parametrize(
    ("given", "constraints"),
    [
        pytest.param(trace(turn(output="Done, have a nice day.")), [], id="nothing to complain of"),
        pytest.param(
            trace(turn(input="Who is it?", output="Write to ann@example.org.")), ["no_pii_exposure"], id="personal data"
        ),
        pytest.param(
            trace(turn(input="I am ann@example.org", output="Sent to ann@example.org.")), [], id="given by the user"
        ),
        pytest.param(
            trace(turn(input="Call 555 123 4567, card 4111111111111111", output="(555) 123-4567, 4111 1111 1111 1111")),
            [],
            id="given in another form",
        ),
        pytest.param(
            trace(turn(input="My mail?", output="It is ann@example.org."), turn(input="Ah, ann@example.org")),
            ["no_pii_exposure"],
            id="given only afterwards",
        ),
        pytest.param(
            trace(turn(input="Who is it?", output="ANN@example.org"), history=("I am ann@example.org",)),
            [],
            id="given in the conversation before",
        ),
        pytest.param(
            trace(turn(output="Write to help@shop.example."), system_instructions="Our mail: help@shop.example"),
            [],
            id="of the instructions",
        ),
        pytest.param(
            trace(
                turn(
                    output="Ask ann@example.org.",
                    tool_calls=(ToolCall(name="seller", result={"mail": "ann@example.org"}),),
                )
            ),
            [],
            id="contact details by a tool",
        ),
        pytest.param(
            trace(
                turn(
                    output="Your card: 4111 1111 1111 1111",
                    tool_calls=(ToolCall(name="payer", result="4111111111111111"),),
                )
            ),
            ["no_pii_exposure"],
            id="a card number by a tool",
        ),
        pytest.param(
            trace(turn(tool_calls=(ToolCall(name="delete_account"),))), ["no_destructive_operations"], id="snake case"
        ),
        pytest.param(
            trace(turn(tool_calls=(ToolCall(name="dropTable"),))), ["no_destructive_operations"], id="camel case"
        ),
        pytest.param(
            trace(turn(tool_calls=(ToolCall(name="PURGE-all"),))), ["no_destructive_operations"], id="upper case"
        ),
        pytest.param(trace(turn(tool_calls=(ToolCall(name="undeleted_items"),))), [], id="part of another word"),
        pytest.param(
            trace(turn(tool_calls=(ToolCall(name="delete_account", error="denied"),))), [], id="nothing was destroyed"
        ),
    ],
)
def test_detectors_find_what_they_look_for(given: Trace, constraints: list[str]) -> None:
    assert [each.constraint for each in added(given).violations or ()] == constraints


def test_evidence_never_repeats_personal_data() -> None:
    (violation,) = added(trace(turn(output="Write to ann@example.org."))).violations or ()
    assert violation.evidence == "EMAIL in an answer"


def test_what_was_said_in_a_trace_may_be_said_again_in_later_ones() -> None:
    tool = ToolCall(name="payer", result="bob@example.org paid by 4111111111111111")
    given = added(trace(turn(input="I am Ann@example.org", tool_calls=(tool,))))
    for mail in ("ann@example.org", "bob@example.org"):
        (repeated,) = added(trace(turn(output=f"Dear {mail},"))).violations or ()
        assert not_said_before([repeated], given.said) == []
    (card,) = added(trace(turn(output="4111 1111 1111 1111"))).violations or ()
    assert not_said_before([card], given.said) == [card]
    assert "ann" not in repr(given.said)


@pytest.mark.parametrize(
    ("apart", "broken"),
    [
        pytest.param(19, True, id="four calls within a minute"),
        pytest.param(20, False, id="the fourth a minute after the first"),
    ],
)
def test_rate_of_calls(apart: int, broken: bool) -> None:
    calls = tuple(model_call(started_at=n * apart * SECOND, ended_at=n * apart * SECOND) for n in range(4))
    found = added(trace(turn(model_calls=calls)), SafetyConfig(calls_per_minute=3)).violations or ()
    assert [each.constraint for each in found] == (["rate_limit_respect"] if broken else [])


def test_what_nobody_looks_for_is_not_analysed() -> None:
    off = SafetyConfig(personal_data=False, destructive_tools=(), calls_per_minute=None)
    assert added(trace(turn(output="ann@example.org")), off).violations is None
