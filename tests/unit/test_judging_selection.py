"""Which sessions the judge looks at: a share drawn at random, and apart from it a few with findings."""

from collections.abc import Sequence
from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest
from agenteval_collector.evaluation.referrals import JudgedEvaluator, Referrals, SessionSample, sampled
from agenteval_collector.model.judge_jobs import Referral
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import Trace
from otel_agenteval.outcome import JudgedPart, Status
from tests.support.assembling import Counting
from tests.support.findings import finding
from tests.support.judging import trace, turn

EVALUATOR = JudgedEvaluator(name="confidence", version="1", model="m", threshold=0.5)
PLAIN = trace(turn("May I?", "Yes."))
ERROR = finding(kind="turn_failed", severity=Severity.ERROR)
WARNING = finding(kind="tool_failed", severity=Severity.WARNING)
INFO = finding(kind="repeated_call", severity=Severity.INFO)


class Selecting:
    """Refers traces as the settings `sample` and `escalate` want it; `restart` forgets all but what is stored."""

    def __init__(self, sample: float, escalate: float) -> None:
        self.sample, self.escalate = sample, escalate
        self.counting = Counting()
        self.stored: dict[str, set[JudgedPart | None]] = {}
        self.restart()

    def restart(self) -> None:
        sample = SessionSample(
            self.sample, self.escalate, lambda session: frozenset(self.stored.get(session, ())), self.counting
        )
        self.referrals = Referrals([EVALUATOR], sample)

    def refer(self, session: str, *findings: Finding, of: Trace = PLAIN) -> Referral:
        [referral] = self.referrals.refer(of, session, findings)
        if referral.outcome.status in (Status.PENDING, Status.SAMPLED_OUT):
            self.stored.setdefault(session, set()).add(referral.part)
        return referral


def test_a_session_is_drawn_at_random_and_says_with_which_probability() -> None:
    selecting = Selecting(0.25, 0.0)
    inside = next(f"s{n}" for n in range(100) if sampled(f"s{n}", 0.25))
    referral = selecting.refer(inside, ERROR)
    assert (referral.part, referral.outcome.status, referral.model) == (JudgedPart.RANDOM, Status.PENDING, "m")
    assert referral.outcome.metadata == {"probability": 0.25}


def test_the_reason_names_the_share_and_the_place_that_was_not_there() -> None:
    selecting = Selecting(0.25, 0.0)
    outside = next(f"s{n}" for n in range(100) if not sampled(f"s{n}", 0.25))
    left_out = "sampled out: the session is not among the 25 % that are judged"
    assert selecting.refer(outside, INFO).outcome.reason == left_out
    referral = selecting.refer(outside, ERROR)
    assert (referral.part, referral.outcome.status, referral.model) == (None, Status.SAMPLED_OUT, None)
    assert referral.outcome.reason == f"{left_out}; for its turn_failed there was no place (judge.escalate 0)"


def test_a_session_is_judged_whole_from_the_finding_on_that_got_it_a_place() -> None:
    selecting = Selecting(0.0, 1.0)
    assert selecting.refer("s").part is None
    first = selecting.refer("s", WARNING, ERROR)
    assert first.outcome.reason == "waiting for the judge, escalated for turn_failed"
    later = selecting.refer("s")
    assert later.outcome.reason == "waiting for the judge, as its session was escalated"
    assert (first.part, later.part) == (JudgedPart.ESCALATED, JudgedPart.ESCALATED)
    assert "probability" not in first.outcome.metadata
    selecting.restart()
    assert selecting.refer("s").part is JudgedPart.ESCALATED
    assert selecting.refer("other").part is None


def test_where_everything_is_judged_nothing_is_escalated() -> None:
    selecting = Selecting(1.0, 1.0)
    referral = selecting.refer("s", ERROR)
    assert (referral.part, referral.outcome.metadata) == (JudgedPart.RANDOM, {"probability": 1.0})
    assert not selecting.counting.counts


def test_errors_get_places_before_warnings() -> None:
    selecting = Selecting(0.0, 0.5)
    for number in range(8):
        selecting.refer(f"plain-{number}")
    assert selecting.refer("warning", WARNING).part is None
    assert selecting.refer("error", ERROR).part is JudgedPart.ESCALATED
    for number in range(8):
        selecting.refer(f"more-{number}")
    assert selecting.refer("warning", WARNING).part is JudgedPart.ESCALATED


def test_escalated_sessions_and_those_without_a_place_are_counted_once() -> None:
    selecting = Selecting(0.0, 0.5)
    for _ in range(3):
        selecting.refer("a", ERROR)
    selecting.refer("b")
    for _ in range(3):
        selecting.refer("c", ERROR)
    assert selecting.counting.counts == {"sessions.not_escalated": 1, "sessions.escalated": 1}


def test_telemetry_with_nothing_to_judge_is_no_session_that_was_seen() -> None:
    selecting = Selecting(0.0, 0.5)
    for number in range(10):
        assert selecting.refer(f"empty-{number}", of=trace()).part is None
    assert selecting.refer("s", ERROR).part is None


steps = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([(), (INFO,), (WARNING,), (ERROR,)]), st.booleans()), max_size=200
)


@given(steps=steps, sample=st.floats(0, 0.5), escalate=st.floats(0, 1))
def test_never_more_than_the_share_is_escalated_not_even_over_restarts(
    steps: Sequence[tuple[int, tuple[Finding, ...], bool]], sample: float, escalate: float
) -> None:
    selecting = Selecting(sample, escalate)
    for session, findings, restarts in steps:
        if restarts:
            selecting.restart()
        selecting.refer(f"s{session}", *findings)
        escalated = [each for each, parts in selecting.stored.items() if JudgedPart.ESCALATED in parts]
        assert len(escalated) <= escalate * len(selecting.stored) + 1e-9
        assert not any(sampled(each, sample) for each in escalated)


@pytest.mark.slow
def test_the_failure_rate_of_the_random_part_is_unbiased_over_200_draws() -> None:
    """Failures go together with findings, so that the escalated sessions fail far more often than the others."""
    truth = Random(13)
    failed = [truth.random() < 0.3 for _ in range(300)]
    findings = [[ERROR] if truth.random() < (0.8 if fails else 0.2) else [] for fails in failed]
    of_random, of_all = [], []
    for draw in range(200):
        selecting = Selecting(0.1, 0.1)
        parts = [selecting.refer(f"draw-{draw}-{number}", *found).part for number, found in enumerate(findings)]
        drawn = [fails for fails, part in zip(failed, parts, strict=True) if part is JudgedPart.RANDOM]
        judged = [fails for fails, part in zip(failed, parts, strict=True) if part is not None]
        assert len(judged) - len(drawn) <= 30
        of_random.append(fmean(drawn))
        of_all.append(fmean(judged))
    error = stdev(of_random) / sqrt(200)
    assert fmean(of_random) == pytest.approx(fmean(failed), abs=3 * error)
    assert error < 0.01
    assert fmean(of_all) > fmean(failed) + 0.1, "the escalated ones tell nothing about the rate"


@pytest.mark.parametrize(
    ("session", "share"),
    [("s-1", 0.4161), ("s-2", 0.2696), ("s-3", 0.5091)],
)
def test_the_choice_is_the_same_in_every_process(session: str, share: float) -> None:
    assert sampled(session, share)
    assert not sampled(session, share - 0.0001)


@given(session=st.text(), shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_larger_share_only_adds_sessions(session: str, shares: tuple[float, float]) -> None:
    small, large = sorted(shares)
    assert sampled(session, small) <= sampled(session, large)
    assert sampled(session, 1.0)
    assert not sampled(session, 0.0)


def test_the_share_is_kept() -> None:
    judged = sum(sampled(f"session-{number}", 0.25) for number in range(10_000))
    assert judged == pytest.approx(2500, abs=150)


def test_hostile_session_ids_have_a_place_too() -> None:
    assert sampled("\ud800", 1.0)
