import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.metrics import DEFAULT_WEIGHTS, agent_consistency, agent_reliability
from otel_agenteval.metrics.signals import SIGNAL_NAMES

PERFECT = dict.fromkeys(SIGNAL_NAMES, 1.0)
CATASTROPHE = dict.fromkeys(SIGNAL_NAMES, 0.0)
NO_COHERENCE = {"coherence": 0.0}

values = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0])
signals = st.dictionaries(st.sampled_from([*SIGNAL_NAMES, "task_completion"]), values | st.none())
sessions = st.lists(signals | st.none(), max_size=30)
weightings = st.none() | st.dictionaries(st.sampled_from(SIGNAL_NAMES), values)


@pytest.mark.parametrize(
    ("traces", "score"),
    [
        pytest.param(6, 0.0, id="among 6 traces it is all that counts"),
        pytest.param(7, 0.45, id="among 7 the tail has two traces"),
        pytest.param(13, 0.45, id="among 13 too"),
        pytest.param(14, 0.6, id="among 14 it has three"),
        pytest.param(20, 0.6, id="among 20 too: 15 % of 20 is exactly 3"),
        pytest.param(100, 0.84, id="among 100 it is nearly lost"),
    ],
)
def test_one_catastrophe_dilutes(traces: int, score: float) -> None:
    result = agent_reliability([CATASTROPHE] + [PERFECT] * (traces - 1))
    assert result.score == pytest.approx(score)
    assert result.metadata["max_risk"] == 1.0
    assert result.metadata["flagged"] == [0]


def test_missing_signals_raise_both_scores_and_lower_the_coverage() -> None:
    full = {"confidence": 0.6, "loop_detection": 0.9, "tool_correctness": 0.3, "coherence": 0.8}
    half = {name: full[name] for name in ("loop_detection", "coherence")}
    assert agent_reliability([full] * 10).score == pytest.approx(0.44)
    assert agent_consistency([full] * 10).score == pytest.approx(0.256)
    assert agent_reliability([full] * 10).coverage == 1.0
    assert agent_reliability([half] * 10).score == pytest.approx(0.8)
    assert agent_consistency([half] * 10).score == 1.0
    assert agent_reliability([half] * 10).coverage == agent_consistency([half] * 10).coverage == 0.5


def test_a_full_confidence_hides_everything_from_consistency() -> None:
    assert agent_consistency([{**CATASTROPHE, "confidence": 1.0}]).score == 1.0


@pytest.mark.parametrize(
    ("confidence", "flagged"),
    [
        pytest.param(0.5, [], id="a risk of exactly one half is not flagged"),
        pytest.param(0.5 - 2**-53, [0], id="the next larger risk is"),
    ],
)
def test_flags_are_strict(confidence: float, flagged: list[int]) -> None:
    assert agent_reliability([{"confidence": confidence}]).metadata["flagged"] == flagged


@pytest.mark.parametrize(
    ("session", "weights", "reason", "coverage"),
    [
        pytest.param([], None, "no traces or signals to evaluate", None, id="no trace"),
        pytest.param([None, {}], None, "no evaluable traces", 0.0, id="traces without signals"),
        pytest.param([{"task_completion": 0.0}], None, "no evaluable traces", 0.0, id="no name of a signal"),
        pytest.param([{"confidence": None}], None, "no evaluable traces", 0.0, id="None is absent"),
        pytest.param([{"coherence": 0.0}], NO_COHERENCE, "no evaluable traces", 0.0, id="only a signal of weight 0"),
        pytest.param([CATASTROPHE], dict.fromkeys(SIGNAL_NAMES, 0.0), "no evaluable traces", 0.0, id="all of weight 0"),
    ],
)
def test_nothing_to_evaluate(session: Any, weights: Any, reason: str, coverage: float | None) -> None:
    for result in (agent_reliability(session, weights), agent_consistency(session, weights)):
        assert (result.score, result.evaluated, result.reason) == (1.0, 0, reason)
        assert result.coverage == coverage


def test_consistency_has_nothing_to_say_without_confidence() -> None:
    result = agent_consistency([{"loop_detection": 0.1}])
    assert (result.score, result.evaluated, result.coverage) == (1.0, 0, 0.25)
    assert agent_consistency([CATASTROPHE], {"confidence": 0.0}).evaluated == 0


def test_a_signal_of_weight_zero_is_missing() -> None:
    session = [{"loop_detection": 0.9, "coherence": 0.0}, {"coherence": 0.3}, {"loop_detection": 0.7}]
    result = agent_reliability(session, NO_COHERENCE)
    assert result.coverage == 2 / 12
    assert result.evaluated == 2
    assert result.metadata["risks"] == [pytest.approx(0.1), 0.0, pytest.approx(0.3)]


def test_metadata_tells_what_entered() -> None:
    session = [{"confidence": 0.25, "loop_detection": 0.5}, None, {"loop_detection": 1.0}]
    weights = {"confidence": 0.5}
    reliability = agent_reliability(session, weights)
    assert reliability.metadata == {
        "traces": 3,
        "evaluated_traces": 2,
        "skipped_traces": 1,
        "weights": {**DEFAULT_WEIGHTS, "confidence": 0.5},
        "risks": [0.5, None, 0.0],
        "flagged": [],
        "max_risk": 0.5,
        "mean_top_k_risk": 0.5,
    }
    assert reliability.coverage == 3 / 12
    consistency = agent_consistency(session, weights)
    assert consistency.metadata == {
        "traces": 3,
        "evaluated_traces": 1,
        "skipped_traces": 2,
        "weights": {**DEFAULT_WEIGHTS, "confidence": 0.5},
        "uncertainties": [0.5625, None, None],
        "rms": 0.5625,
    }


@pytest.mark.parametrize(
    ("session", "weights", "message"),
    [
        pytest.param([{}, {"coherence": 1.01}], None, r"coherence of trace 1 is 1\.01", id="signal above 1"),
        pytest.param([{"confidence": -0.1}], None, r"confidence of trace 0 is -0\.1", id="signal below 0"),
        pytest.param([{"confidence": math.nan}], None, "confidence of trace 0 is nan", id="signal not a number"),
        pytest.param([{"confidence": "high"}], None, "confidence of trace 0 is 'high'", id="signal a word"),
        pytest.param([], {"coherence": 1.5}, r"weight of coherence is 1\.5", id="weight above 1"),
        pytest.param([], {"coherence": -1.0}, r"weight of coherence is -1\.0", id="weight below 0"),
        pytest.param([], {"coherence": None}, "weight of coherence is None", id="weight missing"),
        pytest.param([], {"Coherence": 0.5}, "unknown signal 'Coherence'", id="names are case-sensitive"),
    ],
)
def test_bad_values_are_named(session: Any, weights: Any, message: str) -> None:
    for metric in (agent_reliability, agent_consistency):
        with pytest.raises(ValueError, match=message):
            metric(session, weights)


def test_numpy_numbers_are_numbers() -> None:
    signals: dict[str, Any] = {"confidence": np.float32(0.5)}
    assert agent_reliability([signals]).score == 0.5


def test_the_defaults_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        DEFAULT_WEIGHTS["confidence"] = 0.0


@given(session=sessions, weights=weightings)
def test_reliability_is_the_formula(session: list[dict[str, float | None] | None], weights: Any) -> None:
    risks = sorted(
        max(w * (1 - trace[name]) for name, w in merged(weights).items() if trace.get(name) is not None)
        for trace in present(session)
        if any(trace.get(name) is not None for name in SIGNAL_NAMES)
    )
    result = agent_reliability(session, weights)
    tail = [risks.pop() for _ in range(max(1, math.ceil(len(risks) * 15 / 100)))] if risks else [0.0]
    assert result.score == pytest.approx(max(0.0, 1 - 0.9 * sum(tail) / len(tail) - 0.1 * tail[0]))


@given(session=sessions, weights=weightings)
def test_consistency_is_the_formula(session: list[dict[str, float | None] | None], weights: Any) -> None:
    w = merged(weights)
    squares = []
    for trace in present(session):
        if (confidence := trace.get("confidence")) is not None:
            others = [n for n in SIGNAL_NAMES if n != "confidence" and trace.get(n) is not None]
            penalty = sum(w[name] * (1 - trace[name]) for name in others)
            squares.append(((1 + penalty) * w["confidence"] * (1 - confidence)) ** 2)
    rms = math.sqrt(sum(squares) / len(squares)) if squares else 0.0
    assert agent_consistency(session, weights).score == pytest.approx(max(0.0, 1 - rms))


@given(session=sessions, weights=weightings)
def test_coverage_counts_what_was_expected(session: list[dict[str, float | None] | None], weights: Any) -> None:
    weighted = [name for name, weight in merged(weights).items() if weight]
    found = [name for trace in present(session) for name in weighted if trace.get(name) is not None]
    share = len(found) / (len(SIGNAL_NAMES) * len(session)) if session else None
    assert agent_reliability(session, weights).coverage == agent_consistency(session, weights).coverage == share


@given(session=sessions, weights=weightings, seed=st.randoms(use_true_random=False))
def test_the_order_of_traces_does_not_matter(
    session: list[dict[str, float | None] | None], weights: Any, seed: random.Random
) -> None:
    shuffled = seed.sample(session, len(session))
    assert agent_reliability(session, weights).score == agent_reliability(shuffled, weights).score
    assert agent_consistency(session, weights).score == agent_consistency(shuffled, weights).score


def merged(weights: Mapping[str, float] | None) -> dict[str, float]:
    return {**DEFAULT_WEIGHTS, **(weights or {})}


def present(session: list[dict[str, float | None] | None]) -> list[dict[str, Any]]:
    return [trace for trace in session if trace]
