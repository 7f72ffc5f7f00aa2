"""Each trace says which facts could be looked for."""

from typing import Any

import pytest
from agenteval_collector.evaluation.findings.trace import seen_in

from otel_agenteval.finding import Seen, Visibility
from otel_agenteval.model import ModelCall, ToolCall, Trace, Turn
from tests.support.evaluating import call, trace

ALL, SOME, NONE = Visibility.ALL, Visibility.SOME, Visibility.NONE


def turn(answer: str | None, *calls: ToolCall, reasons: tuple[str | None, ...] = (), **changes: Any) -> Turn:
    models = tuple(ModelCall(span_id="c", finish_reason=reason, started_at=1, ended_at=2) for reason in reasons)
    return Turn(
        span_id="t", input="q", output=answer, tool_calls=calls, model_calls=models, started_at=1, ended_at=2, **changes
    )


@pytest.mark.parametrize(
    ("subject", "is_first", "expected"),
    [
        pytest.param(trace(), True, Seen(), id="nothing, where there is nothing"),
        pytest.param(trace(turn("a")), True, Seen(answers=ALL), id="an answer"),
        pytest.param(trace(turn("")), True, Seen(answers=ALL), id="an empty answer"),
        pytest.param(trace(turn(None)), True, Seen(answers=NONE), id="no answer recorded"),
        pytest.param(trace(turn("a"), turn(None)), True, Seen(answers=SOME), id="one answer of two"),
        pytest.param(trace(turn(None, error="x")), True, Seen(), id="a turn that failed has no answer to be seen"),
        pytest.param(trace(turn(None, ends_in_call=True)), True, Seen(), id="nor has one that ended in a call"),
        pytest.param(
            trace(turn(None, call(result=None), call(), call(result=None), ends_in_call=True), turn_goes_on=True),
            True,
            Seen(arguments=NONE, results=SOME),
            id="nor is a result to be seen where it goes on elsewhere",
        ),
        pytest.param(
            trace(turn("a", call(arguments={}), call())),
            True,
            Seen(answers=ALL, arguments=SOME, results=ALL),
            id="calls",
        ),
        pytest.param(
            trace(turn("a", call(error="x"), call(result=None))),
            True,
            Seen(answers=ALL, arguments=NONE, results=SOME),
            id="an error is an outcome",
        ),
        pytest.param(
            trace(turn("a", reasons=("stop", None))), True, Seen(answers=ALL, finish_reasons=SOME), id="finish reasons"
        ),
        pytest.param(trace(turn("a"), partial=True), True, Seen(answers=SOME), id="nothing whole in a cut trace"),
        pytest.param(trace(turn("a")), False, Seen(answers=ALL, history=NONE), id="a later trace without history"),
        pytest.param(
            trace(turn("a"), history=("q",), is_history_begun=True), False, Seen(answers=ALL, history=ALL), id="with it"
        ),
        pytest.param(
            trace(turn("a"), history=("q",)), False, Seen(answers=ALL, history=SOME), id="with the newest of it"
        ),
        pytest.param(
            trace(turn("a"), history=("q",)), True, Seen(answers=ALL, history=SOME), id="first known of a session"
        ),
    ],
)
def test_what_was_seen(subject: Trace, is_first: bool, expected: Seen) -> None:
    assert seen_in(subject, is_first=is_first) == expected


def test_a_failed_model_call_has_no_finish_reason_to_be_seen() -> None:
    failed = ModelCall(span_id="c", error="timeout", started_at=1, ended_at=2)
    subject = trace(
        Turn(span_id="t", input="q", output=None, error="timeout", model_calls=(failed,), started_at=1, ended_at=2)
    )
    assert seen_in(subject, is_first=True) == Seen()
