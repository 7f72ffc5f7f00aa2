from typing import Any

import pytest
from agenteval_collector.aggregation.cautious import CautiousScores
from agenteval_collector.aggregation.signals import SignalChoice, TraceSignals
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import DEFAULT_WEIGHTS, SessionScores
from otel_agenteval.outcome import Evaluation, Failure, Method, Outcome, Score, Status, Unscored
from tests.support.evaluations import evaluation

JUDGED = ("confidence", "tool_correctness")
CHOICE = SignalChoice(DEFAULT_WEIGHTS, ("loop_detection", "coherence"))
MISSING: tuple[Outcome, ...] = (
    Failure(error_type="malformed", reason=""),
    Unscored(status=Status.PENDING, reason=""),
    Unscored(status=Status.OVER_BUDGET, reason=""),
)

values = st.floats(0, 1, allow_nan=False)
traces = st.lists(st.fixed_dictionaries(dict.fromkeys(DEFAULT_WEIGHTS, values)), min_size=1, max_size=30)


def signals(scores: dict[str, float], missing: dict[str, Outcome] | None = None) -> TraceSignals:
    found: dict[tuple[str, Method], Evaluation] = {}
    for name, value in scores.items():
        method = Method.LLM if name in JUDGED else Method.EMBEDDING
        outcome = (missing or {}).get(name, Score(value=value, reason=""))
        found[name, method] = evaluation(name=name, method=method, outcome=outcome)
    return CHOICE(found)


def scores_of(*members: TraceSignals) -> CautiousScores:
    made = CautiousScores(DEFAULT_WEIGHTS)
    for number, member in enumerate(members):
        made.put(str(number), member)
    return made


@given(old=traces, new=traces, data=st.data())
def test_a_judge_that_is_down_never_raises_a_score(
    old: list[dict[str, float]], new: list[dict[str, float]], data: st.DataObject
) -> None:
    replaced = st.dictionaries(st.sampled_from(JUDGED), st.sampled_from(MISSING), min_size=1)
    before = [signals(each) for each in old]
    after = [*before, *(signals(each, data.draw(replaced)) for each in new)]
    was, now = scores_of(*before), scores_of(*after)
    for score in ("reliability", "consistency"):
        then, later = getattr(was, score)(), getattr(now, score)()
        assert later.score <= then.score
        assert later.coverage < then.coverage == 1.0
    assert now.max_risk is not None
    assert was.max_risk is not None
    assert now.max_risk >= was.max_risk
    assert now.flagged[0] / now.flagged[1] >= was.flagged[0] / was.flagged[1]
    assert now.unjudged is not None
    assert now.unjudged.startswith(f"{len(new)} of {len(after)} traces are not judged: ")


@given(members=traces, data=st.data())
def test_judged_in_any_order_the_scores_are_the_published_ones(
    members: list[dict[str, float]], data: st.DataObject
) -> None:
    made = scores_of(*(signals(each, {"confidence": MISSING[1]}) for each in members))
    for number in data.draw(st.permutations(range(len(members)))):
        made.put(str(number), signals(members[number]))
    plain = SessionScores(DEFAULT_WEIGHTS)
    for number, each in enumerate(members):
        plain.put(str(number), each)
    assert made.reliability() == plain.reliability()
    assert made.consistency() == plain.consistency()
    assert made.unjudged is None


def test_a_trace_that_is_not_judged_counts_where_it_lowers_the_score() -> None:
    good = signals(dict.fromkeys(DEFAULT_WEIGHTS, 1.0))
    loop = signals({**dict.fromkeys(DEFAULT_WEIGHTS, 1.0), "loop_detection": 0.0}, {"confidence": MISSING[1]})
    assert scores_of(good, loop).reliability().score == 0.0


def test_the_reason_counts_every_trace_once() -> None:
    missing: list[dict[str, Outcome]] = [
        {"confidence": MISSING[0], "tool_correctness": MISSING[1]},
        {"confidence": MISSING[1]},
        {"tool_correctness": MISSING[2]},
        {},
    ]
    made = scores_of(*(signals(dict.fromkeys(DEFAULT_WEIGHTS, 1.0), each) for each in missing))
    assert made.unjudged == "3 of 4 traces are not judged: 1 failed, 1 over budget, 1 pending"


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_signal_without_weight_is_not_waited_for(weight: float) -> None:
    choice = SignalChoice({**DEFAULT_WEIGHTS, "confidence": weight}, ())
    pending: Any = {("confidence", Method.LLM): evaluation(name="confidence", method=Method.LLM, outcome=MISSING[1])}
    assert choice(pending).unjudged == (Status.PENDING if weight else None)
