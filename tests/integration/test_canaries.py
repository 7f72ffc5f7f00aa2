"""Which traces the judge is asked about again, over a real store; what it says is the test's."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agenteval_collector.evaluation.referrals import JudgedEvaluator
from agenteval_collector.judge.canaries import DUE_ASKED_EVERY, EVERY, LIFETIME, Canaries
from agenteval_collector.judge.judgements import SPANS_GONE
from agenteval_collector.judge.queue.stage import NO_ROOM
from agenteval_collector.model.judge_jobs import JudgeJob, Judgement
from agenteval_collector.model.labels import Label

from otel_agenteval.outcome import Failure, Outcome, Status, Unscored
from tests.support.otlp import trace_id
from tests.support.referring import Referring, judged, judgement
from tests.support.runs import run_trace
from tests.support.scoring import Scoring

pytestmark = pytest.mark.databases

EVALUATOR = JudgedEvaluator(name="confidence", version="7", model="judge-1", threshold=0.5)
WAS = "judge-1, version 7"
GONE = Failure(error_type=SPANS_GONE, reason="the spans are gone")


class World:
    """Canaries over the store of an evaluation; `passed_on` are the judgements of other traces."""

    def __init__(self, path: Path) -> None:
        self.referring = Referring({"confidence": judged(0.9)})
        self.scoring = Scoring(path, judging=self.referring)
        self.passed_on: list[Judgement] = []
        self.gone: set[str] = set()

    def freeze(self, job: JudgeJob) -> bytes | None:
        return None if job.trace_id in self.gone else b"frozen"

    def take_judgement(self, judgement: Judgement) -> None:
        self.passed_on.append(judgement)

    def canaries(self, wanted: int = 4, evaluator: JudgedEvaluator = EVALUATOR) -> Canaries:
        store, clock = self.scoring.store.canaries, self.scoring.clock
        return Canaries(store, [evaluator], self, self.freeze, clock, lambda: True, wanted=wanted)

    def judged(self, numbers: Collection[int], value: float = 0.9) -> None:
        self.referring.outcomes = {"confidence": judged(value)}
        self.scoring.put(*(run_trace(number, session=f"s{number}") for number in numbers))

    def due(self, canaries: Canaries, seconds: float = EVERY) -> list[JudgeJob]:
        """What is due after so many seconds, where a look at the beginning chooses the traces."""
        self.scoring.clock.advance(DUE_ASKED_EVERY)
        canaries.due()
        self.scoring.clock.advance(seconds)
        return canaries.due()

    def members(self) -> set[str]:
        return {each.trace_id for each in self.scoring.store.canaries.canaries()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.scoring.close()


def ids(*numbers: int) -> set[str]:
    return {trace_id(number).hex() for number in numbers}


def test_they_are_chosen_from_those_that_pass_and_those_that_do_not(world: World) -> None:
    world.judged(range(1, 21), 0.9)
    world.judged(range(21, 24), 0.1)
    assert len(world.due(world.canaries(wanted=6))) == 6
    assert world.members() >= ids(21, 22, 23)


def test_labelled_traces_come_first(world: World) -> None:
    world.judged(range(1, 21))
    for number in (3, 8):
        world.scoring.store.label(Label(trace_id=trace_id(number).hex(), name="confidence", value=1.0))
    world.due(world.canaries())
    assert world.members() >= ids(3, 8)


def test_the_set_stays_as_it_is_while_others_are_judged(world: World) -> None:
    world.judged(range(1, 5))
    world.due(world.canaries())
    world.judged(range(5, 30), 0.1)
    world.due(world.canaries())
    assert world.members() == ids(1, 2, 3, 4)


def test_with_fewer_wanted_fewer_are_asked_about_and_none_is_added(world: World) -> None:
    world.judged(range(1, 21))
    world.due(world.canaries(wanted=4))
    members = world.members()
    assert len(world.canaries(wanted=2).due()) == 2
    assert world.members() == members


def test_nothing_is_due_within_a_day(world: World) -> None:
    world.judged(range(1, 5))
    canaries = world.canaries()
    assert world.due(canaries, EVERY - 2 * DUE_ASKED_EVERY) == []
    world.scoring.clock.advance(2 * DUE_ASKED_EVERY)
    assert len(canaries.due()) == 4


def test_one_that_is_asked_about_is_not_asked_about_twice(world: World) -> None:
    world.judged(range(1, 5))
    canaries = world.canaries()
    jobs = world.due(canaries)
    assert len(jobs) == 4
    assert world.due(canaries) == []
    canaries.take_judgement(judgement(jobs[0], judged(0.9)))
    assert [job.trace_id for job in world.due(canaries)] == [jobs[0].trace_id]


def test_a_trace_that_cannot_be_frozen_is_not_chosen(world: World) -> None:
    world.judged(range(1, 4))
    world.gone = ids(1, 3)
    world.due(world.canaries(wanted=2))
    assert world.members() == ids(2)
    world.judged(range(4, 5))
    world.due(world.canaries(wanted=2))
    assert world.members() == ids(2, 4)


def test_after_its_time_a_canary_gives_way_to_another_and_nothing_of_it_is_kept(world: World) -> None:
    world.judged(range(1, 3))
    canaries = world.canaries(wanted=2)
    world.due(canaries)
    assert world.scoring.store.canaries.frozen(trace_id(1).hex()) == b"frozen"
    world.scoring.clock.advance(LIFETIME)
    world.judged(range(3, 5))
    canaries.due()
    assert world.members() == ids(3, 4)
    assert world.scoring.store.canaries.frozen(trace_id(1).hex()) is None


def test_where_none_are_wanted_any_more_nothing_of_them_is_kept(world: World) -> None:
    world.judged(range(1, 3))
    world.due(world.canaries(wanted=2))
    assert world.canaries(wanted=0).due() == []
    assert world.members() == set()


def test_a_drift_is_over_when_the_judge_says_again_what_it_said(world: World) -> None:
    world.judged(range(1, 13))
    canaries = world.canaries(wanted=12)
    told = []
    for value in (0.1, 0.1, 0.9):
        for job in world.due(canaries):
            canaries.take_judgement(judgement(job, judged(value)))
        told.append(canaries.drifts[0].drifted)
    assert told == [True, True, False]


def test_a_drift_that_is_accepted_is_told_of_until_newer_traces_take_over(world: World) -> None:
    world.judged(range(1, 13))
    canaries = world.canaries(wanted=12)
    for job in world.due(canaries):
        canaries.take_judgement(judgement(job, judged(0.1)))
    assert canaries.drifts[0].drifted
    world.scoring.clock.advance(LIFETIME)
    world.judged(range(13, 25), 0.1)
    for job in world.due(canaries):
        canaries.take_judgement(judgement(job, judged(0.1)))
    assert (canaries.drifts[0].drifted, canaries.drifts[0].traces) == (False, 12)


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Unscored(status=Status.OVER_BUDGET, reason="no budget"), id="no budget"),
        pytest.param(Failure(error_type=NO_ROOM, reason="too many wait"), id="no room"),
    ],
)
def test_what_was_not_asked_is_asked_at_the_next_look(world: World, outcome: Outcome) -> None:
    world.judged(range(1, 2))
    canaries = world.canaries()
    [job] = world.due(canaries)
    canaries.take_judgement(judgement(job, outcome))
    world.scoring.clock.advance(DUE_ASKED_EVERY)
    assert len(canaries.due()) == 1


def test_a_judge_that_gives_no_valid_answer_is_not_asked_again_before_the_next_day(world: World) -> None:
    world.judged(range(1, 2))
    canaries = world.canaries()
    [job] = world.due(canaries)
    canaries.take_judgement(judgement(job, Failure(error_type="malformed", reason="no valid reply")))
    world.scoring.clock.advance(DUE_ASKED_EVERY)
    assert canaries.due() == []
    assert len(world.due(canaries)) == 1


def test_another_version_of_the_question_is_asked_at_once(world: World) -> None:
    world.judged(range(1, 5))
    world.due(world.canaries(), DUE_ASKED_EVERY)
    [first, *_] = jobs = world.canaries(evaluator=replace(EVALUATOR, version="8")).due()
    assert len(jobs) == 4
    assert (first.pending[0].version, first.recheck) == ("8", True)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(EVALUATOR, version="8"), id="question"),
        pytest.param(replace(EVALUATOR, model="judge-2"), id="model"),
    ],
)
def test_what_was_said_before_a_change_is_kept_as_that_and_asked_again_at_once(
    world: World, changed: JudgedEvaluator
) -> None:
    world.judged(range(1, 13))
    canaries = world.canaries(wanted=12, evaluator=changed)
    jobs = canaries.due()
    assert len(jobs) == 12
    assert {(each.version, each.model) for each in world.scoring.store.canaries.answers()} == {("7", "judge-1")}
    for job in jobs:
        canaries.take_judgement(judgement(job, judged(0.1)))
    [told] = canaries.drifts
    assert (told.version, told.model, told.was, told.traces) == (changed.version, changed.model, WAS, 12)
    for job in world.due(canaries):
        canaries.take_judgement(judgement(job, judged(0.1)))
    [told] = canaries.drifts
    assert (told.was, told.drifted) == (f"{changed.model}, version {changed.version}", False)


def test_a_first_answer_that_failed_leaves_the_next_one_to_compare_with(world: World) -> None:
    world.judged(range(1, 13))
    changed = replace(EVALUATOR, model="judge-2")
    canaries = world.canaries(wanted=12, evaluator=changed)
    for job in canaries.due():
        canaries.take_judgement(judgement(job, Failure(error_type="malformed", reason="no valid reply")))
    for value in (0.9, 0.1):
        for job in world.due(canaries):
            canaries.take_judgement(judgement(job, judged(value)))
    [told] = canaries.drifts
    assert (told.was, told.traces, told.drifted) == ("judge-2, version 7", 12, True)


def test_judgements_of_other_traces_are_passed_on(world: World) -> None:
    world.judged(range(1, 2))
    canaries = world.canaries()
    [job] = world.due(canaries)
    other = judgement(replace(job, recheck=False), judged(0.1))
    canaries.take_judgement(other)
    assert world.passed_on == [other]
    assert canaries.drifts[0].p_value is None


def test_answers_on_traces_that_are_gone_still_count(world: World) -> None:
    world.judged(range(1, 13))
    canaries = world.canaries(wanted=12)
    for job in world.due(canaries):
        canaries.take_judgement(judgement(job, judged(0.1)))
    for job in world.due(canaries):
        canaries.take_judgement(judgement(job, GONE))
    assert world.members() == set()
    assert canaries.drifts[0].drifted
