"""The parameters of listings."""

import pytest
from agenteval_collector.model.session_filter import EVERY_SESSION, Below, Order, SessionFilter
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.filters import PROBLEM_PARAMETERS, SESSION_PARAMETERS, problem_filter, session_filter
from agenteval_collector.serve.api.wire import MAX_TEXT, texts_of

from otel_agenteval.finding import Severity

SECOND = 1_000_000_000
NINE = 1_772_442_000 * SECOND
"""2026-03-02T09:00:00Z"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({}, EVERY_SESSION, id="nothing"),
        pytest.param(dict.fromkeys(SESSION_PARAMETERS, ""), EVERY_SESSION, id="a form that was left empty"),
        pytest.param(
            {"agent": "a", "service": "s", "version": "v", "user": "u"},
            SessionFilter(agent="a", service="s", version="v", user="u"),
            id="names",
        ),
        pytest.param({"finding": "cycle"}, SessionFilter(finding="cycle"), id="a loop"),
        pytest.param({"severity": "error"}, SessionFilter(severity=Severity.ERROR), id="a severity"),
        pytest.param({"below": "a:b:0.5"}, SessionFilter(below=Below("a:b", 0.5)), id="a score"),
        pytest.param({"text": "Ärger"}, SessionFilter(text="Ärger"), id="a text"),
        pytest.param(
            {"since": "2026-03-02T09:00:00Z", "until": "2026-03-02T11:00:00.5+01:00"},
            SessionFilter(since=NINE, until=NINE + 3600 * SECOND + SECOND // 2),
            id="times",
        ),
        pytest.param({"order": "attention"}, SessionFilter(order=Order.ATTENTION), id="an order"),
    ],
)
def test_parameters_say_what_is_wanted(given: dict[str, str], wanted: SessionFilter) -> None:
    assert session_filter(given) == wanted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"finding": "cylce"}, "finding is 'cylce', not one of agent_died, answer_cut"),
        ({"severity": "bad"}, "severity is 'bad', not one of error, warning, info"),
        ({"order": "oldest"}, "order is 'oldest', not one of newest, attention"),
        ({"below": "0.5"}, "below is '0.5', not NAME:VALUE"),
        ({"below": "coherence:2"}, "below is 'coherence:2', not NAME:VALUE"),
        ({"below": "coherence:nan"}, "below is 'coherence:nan', not NAME:VALUE"),
        ({"since": "yesterday"}, "since is 'yesterday', not a time"),
        ({"since": "2026-03-02T09:00:00"}, "since is '2026-03-02T09:00:00', not a time"),
        ({"until": "1066-10-14T09:00:00Z"}, "until is '1066-10-14T09:00:00Z', not a time"),
        ({"since": "2026-03-02T09:00:00Z", "until": "2026-03-02T09:00:00Z"}, "not before until"),
        ({"text": "x" * (MAX_TEXT + 1)}, f"text has {MAX_TEXT + 1} characters"),
        ({"agent": "\ud800"}, "agent has characters that cannot be stored"),
        ({"agent": "a\0b"}, "agent has characters that cannot be stored"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        session_filter(given)


@pytest.mark.parametrize(("text", "message"), [("x" * (MAX_TEXT + 1), "characters, more than"), ("a\0b", "be stored")])
def test_every_listing_refuses_texts_that_no_store_has(text: str, message: str) -> None:
    for name in PROBLEM_PARAMETERS:
        with pytest.raises(InvalidRequest, match=f"^{name} has .*{message}"):
            problem_filter({name: text})
    with pytest.raises(InvalidRequest, match="state is 'shut', not one of"):
        problem_filter({"state": "shut"})
    with pytest.raises(InvalidRequest, match=f"^variant has .*{message}"):
        texts_of({"agent": "shop", "variant": text}, "agent", "variant")
