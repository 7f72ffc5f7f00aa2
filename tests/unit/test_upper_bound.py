import pytest
from agenteval_collector.evaluation.sessions.session import AnswerWindow, Session
from agenteval_collector.evaluation.sessions.session_evaluators import SessionEvaluators, unjudged_reason
from agenteval_collector.evaluation.sessions.upper_bound import BoundedScore, BoundedScores, TraceSignals, signals_of
from agenteval_collector.model.sessions import SessionState
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import DEFAULT_WEIGHTS
from otel_agenteval.metrics.session import SessionScores
from otel_agenteval.outcome import Evaluation, Failure, JudgedPart, Method, Outcome, Score, Status, Unscored
from tests.support.evaluations import evaluation

JUDGED = ("confidence", "tool_correctness")
THRESHOLDS = {"agent_reliability": 0.5, "agent_consistency": 0.5}
MISSING: tuple[Outcome, ...] = (
    Failure(error_type="malformed", reason=""),
    Unscored(status=Status.PENDING, reason=""),
    Unscored(status=Status.OVER_BUDGET, reason=""),
)

values = st.floats(0, 1, allow_nan=False)
traces = st.lists(st.fixed_dictionaries(dict.fromkeys(DEFAULT_WEIGHTS, values)), min_size=1, max_size=30)


def signals(scores: dict[str, float], missing: dict[str, Outcome] | None = None) -> TraceSignals:
    outcomes = {name: Score(value=value, reason="") for name, value in scores.items()} | (missing or {})
    return signals_of({name: of(name, outcome) for name, outcome in outcomes.items()}, DEFAULT_WEIGHTS)


def of(name: str, outcome: Outcome) -> Evaluation:
    return evaluation(name=name, method=Method.LLM if name in JUDGED else Method.EMBEDDING, outcome=outcome)


def outcomes_of(
    scores: BoundedScores, min_coverage: float = 0.2, weightless: dict[str, str] | None = None
) -> dict[str, Outcome]:
    record = SessionState(
        session_id="s", user_id=None, agent=None, services=(), started_at=1, last_seen_at=1, trace_count=scores.traces
    )
    session = Session(record, scores, AnswerWindow())
    found = SessionEvaluators(THRESHOLDS, min_coverage, weightless or {}).evaluate(session, now=1)
    return {each.name: each.outcome for each in found}


def scores_of(*members: TraceSignals) -> BoundedScores:
    made = BoundedScores(DEFAULT_WEIGHTS)
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
        then, later = getattr(was, score)().result, getattr(now, score)().result
        assert later.score <= then.score
        assert later.coverage < then.coverage == 1.0
    assert (unjudged_reason(now) or "").startswith(f"{len(new)} of {len(after)} traces are not judged (")


@given(members=traces, data=st.data())
def test_with_no_trace_judged_the_score_is_the_highest_that_the_judge_can_leave(
    members: list[dict[str, float]], data: st.DataObject
) -> None:
    replaced = st.dictionaries(st.sampled_from(JUDGED), st.sampled_from(MISSING), min_size=1)
    down = scores_of(*(signals(each, data.draw(replaced)) for each in members))
    present = scores_of(*(signals(each) for each in members))
    for score in ("reliability", "consistency"):
        bound, true = getattr(down, score)(), getattr(present, score)()
        assert bound.bound
        assert not true.bound
        # The sum of many risks is rounded once; that of perfect ones has one rounding less.
        assert true.result.score <= bound.result.score + 1e-12


@given(members=traces, data=st.data())
def test_a_judge_that_is_down_from_the_start_leaves_a_score_that_fails_or_none(
    members: list[dict[str, float]], data: st.DataObject
) -> None:
    replaced = st.dictionaries(st.sampled_from(JUDGED), st.sampled_from(MISSING), min_size=1)
    down = [signals(each, data.draw(replaced)) for each in members]
    outcomes = outcomes_of(scores_of(*down))
    true = outcomes_of(scores_of(*(signals(each) for each in members)))
    why = {each.unjudged for each in down}
    status = next(each for each in (Status.PENDING, Status.OVER_BUDGET, Status.FAILED) if each in why)
    for name, outcome in outcomes.items():
        assert outcome.coverage is not None
        assert outcome.coverage < 1.0
        assert f"{len(down)} of {len(down)} traces are not judged (" in outcome.reason
        if not isinstance(outcome, Score):
            assert outcome.status is status
        else:
            assert outcome.value < THRESHOLDS[name]
            assert isinstance(truth := true[name], Score)
            assert truth.value <= outcome.value + 1e-12


@pytest.mark.parametrize(
    ("missing", "status", "reason"),
    [
        (MISSING, Status.PENDING, "at most 0.90: 3 of 3 traces are not judged (1 pending, 1 over budget, 1 failed)"),
        (MISSING[::2], Status.OVER_BUDGET, "at most 0.90: 2 of 2 traces are not judged (1 over budget, 1 failed)"),
        (MISSING[:1], Status.FAILED, "at most 0.90: 1 of 1 traces are not judged (1 failed)"),
    ],
)
def test_a_session_of_which_nothing_is_judged_says_so(
    missing: tuple[Outcome, ...], status: Status, reason: str
) -> None:
    known = {**dict.fromkeys(DEFAULT_WEIGHTS, 1.0), "loop_detection": 0.9}
    outcome = outcomes_of(scores_of(*(signals(known, {"confidence": each}) for each in missing)))["agent_reliability"]
    assert (outcome.status, outcome.reason, outcome.coverage) == (status, reason, 0.75)
    assert not isinstance(outcome, Failure) or outcome.error_type == "unjudged"


def test_a_loop_is_a_loop_with_or_without_a_judge() -> None:
    loop = signals({**dict.fromkeys(DEFAULT_WEIGHTS, 1.0), "loop_detection": 0.1}, {"confidence": MISSING[1]})
    outcomes = outcomes_of(scores_of(loop))
    found = {name: each.value for name, each in outcomes.items() if isinstance(each, Score)}
    assert found == pytest.approx({"agent_reliability": 0.1})
    assert all("1 of 1 traces are not judged (1 pending)" in each.reason for each in outcomes.values())


@given(members=traces, data=st.data())
def test_judged_in_any_order_the_scores_are_the_published_ones(
    members: list[dict[str, float]], data: st.DataObject
) -> None:
    made = scores_of(*(signals(each, {"confidence": MISSING[1]}) for each in members))
    for number in data.draw(st.permutations(range(len(members)))):
        made.put(str(number), signals(members[number]), signals(members[number], {"confidence": MISSING[1]}))
    plain = SessionScores(DEFAULT_WEIGHTS)
    for number, each in enumerate(members):
        plain.add(number, each)
    assert made.reliability() == BoundedScore(plain.reliability(), bound=False)
    assert made.consistency() == BoundedScore(plain.consistency(), bound=False)
    assert unjudged_reason(made) is None


def test_a_trace_that_is_not_judged_counts_where_it_lowers_the_score() -> None:
    good = signals(dict.fromkeys(DEFAULT_WEIGHTS, 1.0))
    loop = signals({**dict.fromkeys(DEFAULT_WEIGHTS, 1.0), "loop_detection": 0.0}, {"confidence": MISSING[1]})
    assert scores_of(good, loop).reliability().result.score == 0.0


def test_the_reason_counts_every_trace_once() -> None:
    missing: list[dict[str, Outcome]] = [
        {"confidence": MISSING[0], "tool_correctness": MISSING[1]},
        {"confidence": MISSING[1]},
        {"tool_correctness": MISSING[2]},
        {},
    ]
    made = scores_of(*(signals(dict.fromkeys(DEFAULT_WEIGHTS, 1.0), each) for each in missing))
    assert unjudged_reason(made) == "3 of 4 traces are not judged (2 pending, 1 over budget)"
    assert outcomes_of(made)["agent_reliability"].metadata["pending_traces"] == 2


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_signal_without_weight_is_not_waited_for(weight: float) -> None:
    pending = {"confidence": of("confidence", MISSING[1])}
    assert signals_of(pending, {**DEFAULT_WEIGHTS, "confidence": weight}).unjudged == (
        Status.PENDING if weight else None
    )


NO_JUDGE = Unscored(status=Status.NO_JUDGE, reason="")
SAMPLED_OUT = Unscored(status=Status.SAMPLED_OUT, reason="")
NO_CONTENT = Unscored(status=Status.NO_CONTENT, reason="")
NOT_APPLICABLE = Unscored(status=Status.NOT_APPLICABLE, reason="")
WEIGHTLESS = {"coherence": "coherence has weight 0 with the embedded embedder"}


@pytest.mark.parametrize(
    ("missing", "status", "reason"),
    [
        pytest.param(
            [dict.fromkeys(JUDGED, NO_JUDGE)],
            Status.NO_JUDGE,
            "confidence and tool_correctness take a judge; coherence has weight 0 with the embedded embedder; "
            "coverage 0.25 is below session.min_coverage 0.5",
            id="without a judge",
        ),
        pytest.param(
            [{"confidence": NO_JUDGE, "tool_correctness": NOT_APPLICABLE, "loop_detection": NOT_APPLICABLE}],
            Status.NO_JUDGE,
            "confidence takes a judge; coherence has weight 0 with the embedded embedder; "
            "coverage 0.00 is below session.min_coverage 0.5",
            id="a first answer without tools and without a judge",
        ),
        pytest.param(
            [dict.fromkeys(JUDGED, NO_JUDGE), dict.fromkeys(JUDGED, MISSING[1])],
            Status.PENDING,
            "confidence and tool_correctness take a judge; 1 of 2 traces are not judged (1 pending); coherence has "
            "weight 0 with the embedded embedder; coverage 0.25 is below session.min_coverage 0.5",
            id="a judge that came later",
        ),
        pytest.param(
            [dict.fromkeys(JUDGED, MISSING[2])],
            Status.OVER_BUDGET,
            "1 of 1 traces are not judged (1 over budget); coherence has weight 0 with the embedded embedder; "
            "coverage 0.25 is below session.min_coverage 0.5",
            id="no budget",
        ),
        pytest.param(
            [dict.fromkeys(JUDGED, MISSING[0])],
            Status.FAILED,
            "1 of 1 traces are not judged (1 failed); coherence has weight 0 with the embedded embedder; "
            "coverage 0.25 is below session.min_coverage 0.5",
            id="a judge that failed",
        ),
        pytest.param(
            [dict.fromkeys(JUDGED, SAMPLED_OUT)] * 2,
            Status.SAMPLED_OUT,
            "coherence has weight 0 with the embedded embedder; confidence is sampled out in 2 of 2 traces; "
            "tool_correctness is sampled out in 2 of 2 traces; coverage 0.25 is below session.min_coverage 0.5",
            id="outside the sample",
        ),
        pytest.param(
            [dict.fromkeys(["loop_detection", "coherence", *JUDGED], NO_CONTENT)],
            Status.NO_CONTENT,
            "coherence has weight 0 with the embedded embedder; confidence lacks its content in 1 of 1 traces; "
            "loop_detection lacks its content in 1 of 1 traces; tool_correctness lacks its content in 1 of 1 traces; "
            "coverage 0.00 is below session.min_coverage 0.5",
            id="without content",
        ),
        pytest.param(
            [dict.fromkeys(["loop_detection", "coherence", *JUDGED], NOT_APPLICABLE)],
            Status.NOT_APPLICABLE,
            "no trace has a signal of any weight; coherence has weight 0 with the embedded embedder",
            id="nothing applies",
        ),
    ],
)
def test_below_the_least_coverage_there_is_no_score_and_the_reason_says_what_is_missing(
    missing: list[dict[str, Outcome]], status: Status, reason: str
) -> None:
    weights = {**DEFAULT_WEIGHTS, "coherence": 0.0}
    scores = BoundedScores(weights)
    for number, each in enumerate(missing):
        outcomes = {**{name: Score(value=0.9, reason="") for name in DEFAULT_WEIGHTS}, **each}
        scores.put(str(number), signals_of({name: of(name, found) for name, found in outcomes.items()}, weights))
    found = outcomes_of(scores, 0.5, WEIGHTLESS)["agent_reliability"]
    assert (found.status, found.reason) == (status, reason)


def test_without_a_confidence_there_is_no_consistency_whatever_the_coverage() -> None:
    scores = scores_of(signals(dict.fromkeys(DEFAULT_WEIGHTS, 0.9), {"confidence": NO_JUDGE}))
    outcomes = outcomes_of(scores, 0.5)
    assert isinstance(outcomes["agent_reliability"], Score)
    consistency = outcomes["agent_consistency"]
    assert consistency.status is Status.NO_JUDGE
    assert consistency.reason == "no trace has a confidence of any weight; confidence takes a judge"


def test_a_session_is_low_only_where_it_has_a_score_and_counts_where_it_was_drawn_at_random() -> None:
    def levels(missing: dict[str, Outcome], part: JudgedPart | None = JudgedPart.RANDOM) -> dict[str, bool]:
        evaluators = SessionEvaluators(THRESHOLDS, 0.5)
        found = outcomes_of(scores_of(signals({**GOOD, "loop_detection": 0.1}, missing)), 0.5)
        return evaluators.levels(
            [evaluation(name=name, outcome=each, threshold=THRESHOLDS[name], part=part) for name, each in found.items()]
        )

    assert levels({}) == {"agent_reliability": True, "agent_consistency": False}
    unscored: dict[str, Outcome] = {**dict.fromkeys(JUDGED, NO_JUDGE), "coherence": NO_CONTENT}
    assert levels(unscored) == {"agent_reliability": False, "agent_consistency": False}
    assert levels({}, JudgedPart.ESCALATED) == {}
    assert levels({}, None) == {}


GOOD = dict.fromkeys(DEFAULT_WEIGHTS, 1.0)
