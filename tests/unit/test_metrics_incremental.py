"""Session scores are those of the same traces put once, bit for bit, whatever was put and replaced before."""

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from otel_agenteval.metrics import DEFAULT_WEIGHTS, MetricResult, agent_consistency, agent_reliability
from otel_agenteval.metrics.session import SessionScores
from otel_agenteval.metrics.signals import SIGNAL_NAMES
from tests.support.inputs import inputs

PER_TRACE = {"risks", "flagged", "uncertainties"}

# Few different values make ties; the full range of doubles makes every rounding matter.
values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)
signals = st.dictionaries(st.sampled_from(SIGNAL_NAMES), values, max_size=4)
weightings = st.none() | st.dictionaries(st.sampled_from(SIGNAL_NAMES), st.sampled_from([0.0, 5e-324, 1.0]) | values)


def summary(result: MetricResult) -> MetricResult:
    """Without what is listed for every trace."""
    return replace(result, metadata={k: v for k, v in result.metadata.items() if k not in PER_TRACE})


class Scores:
    """The scores of a session whose traces are put and replaced by name."""

    def __init__(self, weights: Any = None) -> None:
        self.weights = weights
        self.made = SessionScores(weights)
        self.put_before: dict[str, tuple[Mapping[str, float], Any]] = {}

    def put(self, trace: str, signals: Mapping[str, float], not_applicable: Any = ()) -> None:
        contribution = SessionScores(self.weights).add(trace, signals, not_applicable)
        if trace in self.put_before:
            self.made.remove(trace, *self.put_before[trace])
        assert self.made.add(trace, signals, not_applicable) == contribution
        self.put_before[trace] = (signals, not_applicable)

    def take_up_again(self) -> None:
        self.made = SessionScores(self.weights, self.made.saved)


def assert_current(scores: Scores, session: Mapping[str, Mapping[str, float]], weights: Any) -> None:
    assert scores.made.reliability() == summary(agent_reliability(list(session.values()), weights))
    assert scores.made.consistency() == summary(agent_consistency(list(session.values()), weights))


class PutsAndReplacements(RuleBasedStateMachine):
    """Keeps the signals of every trace, and compares with the scores of all of them put anew after every step."""

    @initialize(weights=weightings)
    def start(self, weights: dict[str, float] | None) -> None:
        self.weights = weights
        self.scores = Scores(weights)
        self.session: dict[str, dict[str, float]] = {}

    @rule(trace=st.integers(0, 60), signals=signals)
    def put(self, trace: int, signals: dict[str, float]) -> None:
        self.session[f"trace {trace}"] = signals
        self.scores.put(f"trace {trace}", signals)

    @rule(first=st.integers(0, 30), many=st.lists(signals, min_size=20, max_size=40))
    def put_many(self, first: int, many: list[dict[str, float]]) -> None:
        for trace, each in enumerate(many, first):
            self.put(trace, each)

    @rule()
    def forget_what_the_traces_said(self) -> None:
        for trace in self.session:
            self.scores.put(trace, {})
        self.session = {trace: {} for trace in self.session}

    @rule()
    def put_down_and_take_up_again(self) -> None:
        self.scores.take_up_again()

    @invariant()
    def is_the_plain_score(self) -> None:
        assert_current(self.scores, self.session, self.weights)


PutsAndReplacements.TestCase.settings = settings(max_examples=inputs(0.6), stateful_step_count=25)
TestPutsAndReplacements = PutsAndReplacements.TestCase


@given(session=st.lists(signals, min_size=1, max_size=60), weights=weightings)
def test_every_length_of_a_growing_session(session: list[dict[str, float]], weights: Any) -> None:
    scores, so_far = Scores(weights), {}
    for index, each in enumerate(session):
        scores.put(str(index), each)
        so_far[str(index)] = each
        assert_current(scores, so_far, weights)


def test_the_smallest_risks_are_not_rounded_away() -> None:
    weights = dict.fromkeys(SIGNAL_NAMES, 5e-324)
    scores, session = Scores(weights), {str(trace): {"confidence": 0.0} for trace in range(20)}
    for trace, signals in session.items():
        scores.put(trace, signals)
    assert scores.made.reliability().metadata["mean_top_k_risk"] == 5e-324
    assert_current(scores, session, weights)


def test_no_drift_over_many_replacements() -> None:
    scores = Scores()
    for step in range(3000):
        scores.put(f"{step % 7}", {"confidence": (step * 0.1234567) % 1.0, "coherence": (step * 0.7654321) % 1.0})
    for trace in range(7):
        scores.put(f"{trace}", {"confidence": 1.0, "coherence": 1.0})
    assert (scores.made.reliability().score, scores.made.consistency().score) == (1.0, 1.0)
    assert scores.made.reliability().metadata["max_risk"] == 0.0


@pytest.mark.parametrize(
    ("not_applicable", "coverage"),
    [
        pytest.param([], 3 / 8, id="everything is expected"),
        pytest.param(["tool_correctness"], 3 / 7, id="one signal cannot exist"),
        pytest.param({"tool_correctness", "confidence", "coherence"}, 3 / 5, id="three cannot"),
        pytest.param(("task_completion",), 3 / 8, id="no name of a signal"),
    ],
)
def test_coverage_allows_for_what_cannot_exist(not_applicable: Any, coverage: float) -> None:
    scores = Scores()
    scores.put("first", {"loop_detection": 0.75}, not_applicable)
    scores.put("second", {"loop_detection": 0.75, "coherence": 0.5})
    assert scores.made.reliability().coverage == scores.made.consistency().coverage == coverage


def test_a_replacement_replaces_what_was_not_applicable() -> None:
    scores = Scores()
    scores.put("trace", {}, SIGNAL_NAMES)
    assert scores.made.reliability().coverage is None
    scores.put("trace", {"confidence": 0.5})
    assert scores.made.reliability().coverage == 0.25


def test_a_signal_of_weight_zero_is_expected_and_no_evidence() -> None:
    scores = Scores({"coherence": 0.0})
    scores.put("trace", {"coherence": 0.1}, ["tool_correctness"])
    assert (scores.made.reliability().evaluated, scores.made.reliability().coverage) == (0, 0.0)
    assert "max_risk" not in scores.made.reliability().metadata
    scores.put("trace", {"coherence": 0.1, "loop_detection": 0.5}, ["tool_correctness"])
    assert (scores.made.reliability().evaluated, scores.made.reliability().coverage) == (1, 1 / 3)
    assert scores.made.reliability().metadata["max_risk"] == 0.5


@pytest.mark.parametrize(
    ("signals", "not_applicable", "message"),
    [
        pytest.param({"confidence": 2.0}, (), r"confidence of trace 't1' is 2\.0", id="signal above 1"),
        pytest.param({"confidence": 0.5}, ("confidence",), "both present and not applicable", id="a contradiction"),
    ],
)
def test_a_refused_put_changes_nothing(signals: Any, not_applicable: Any, message: str) -> None:
    scores, session = Scores(), {"t1": {"confidence": 0.25, "coherence": 1.0}}
    scores.put("t1", session["t1"])
    with pytest.raises(ValueError, match=message):
        scores.put("t1", signals, not_applicable)
    assert_current(scores, session, None)


def test_weights_are_checked() -> None:
    with pytest.raises(ValueError, match="unknown signal 'made_up'"):
        SessionScores({"made_up": 1.0})


def test_an_empty_session_has_no_risk() -> None:
    scores = Scores()
    metadata = scores.made.reliability().metadata
    assert (metadata["traces"], "max_risk" in metadata) == (0, False)
    assert metadata["weights"] == DEFAULT_WEIGHTS


def test_replaced_risks_do_not_pile_up() -> None:
    scores = Scores()
    for trace in range(40):
        scores.put(str(trace), {"confidence": 0.5})
    tracemalloc.start()
    try:
        for step in range(4000):
            scores.put(str(step % 40), {"confidence": 0.5 + (step if step % 80 < 40 else -step) / 10_000})
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000, f"{grown} bytes more for the same 40 traces"
