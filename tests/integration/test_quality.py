"""Rates of passing, from a real store to the API, the page, the command line and the gauges."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.serve.web.formats import rate_notes
from agenteval_collector.stores import pass_rates

from otel_agenteval.metrics.pass_rate import JudgedTrace, pass_rate
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Score, Status, SubjectKind, Unscored
from tests.integration.test_cli_read import agenteval
from tests.support import asking
from tests.support.evaluations import evaluation
from tests.support.otlp import trace_id, turn
from tests.support.pages import app_of
from tests.support.referring import Referring
from tests.support.rendering import rendered
from tests.support.scoring import Scoring, assembled
from tests.support.web_server import serve

pytestmark = pytest.mark.databases

START = 1_700_000_000_000_000_000
NAME = "task_completion"


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def judged(number: int, passed: bool, **changes: Any) -> Evaluation:
    """The judge's word on a trace, in a session with the next one; it was drawn at random."""
    about = {
        "name": NAME,
        "method": Method.LLM,
        "part": JudgedPart.RANDOM,
        "subject_id": trace_id(number).hex(),
        "session_id": f"s{number // 2}",
        "outcome": Score(value=0.9 if passed else 0.1, reason=""),
        "evaluated_at": START + number,
    }
    return evaluation(**{**about, **changes})


def keep(scoring: Scoring, *evaluations: Evaluation) -> None:
    scoring.store.commit(Commit(evaluations=list(evaluations)))


def label(scoring: Scoring, number: int, value: float, **changes: Any) -> None:
    about = {"trace_id": trace_id(number).hex(), "name": NAME, "value": value, "drawn": True, "author": "ann"}
    scoring.store.label(Label(**{**about, **changes}))


def rates(scoring: Scoring, **wanted: Any) -> list[Any]:
    return scoring.queries.quality(**wanted).items


def only(scoring: Scoring) -> Any:
    [found] = rates(scoring)
    return found


def test_only_what_a_judge_said_has_a_rate(scoring: Scoring) -> None:
    keep(scoring, judged(1, True, method=Method.EMBEDDING, name="agent_reliability"))
    assert rates(scoring) == []


def test_without_labels_the_rate_is_the_judges_own_and_is_called_so(scoring: Scoring) -> None:
    keep(scoring, *(judged(number, number < 6) for number in range(8)))
    assert only(scoring) == {
        "agent": "planner",
        "service": "shop",
        "version": "1.2.0",
        "name": NAME,
        "estimate": 0.75,
        "interval": None,
        "sequence": None,
        "estimator": "uncorrected",
        "judged": 8,
        "unscored": 0,
        "labelled": 0,
        "models": [],
        "sensitivity": None,
        "sensitivity_interval": None,
        "specificity": None,
        "specificity_interval": None,
        "reason": "0 labels: 20 are needed for an interval",
        "by_judge": None,
    }


def test_only_what_was_drawn_at_random_counts(scoring: Scoring) -> None:
    keep(
        scoring,
        judged(1, True),
        judged(2, False, part=JudgedPart.ESCALATED),
        judged(3, False, part=None),
        judged(4, False, outcome=Unscored(status=Status.FAILED, reason="")),
        judged(5, False, threshold=None),
    )
    assert (only(scoring)["judged"], only(scoring)["estimate"]) == (1, 1.0)


@pytest.mark.parametrize("status", [Status.FAILED, Status.OVER_BUDGET])
def test_what_was_drawn_and_judged_in_vain_is_counted_beside_the_rate(scoring: Scoring, status: Status) -> None:
    vain: Any = {"outcome": Unscored(status=status, reason="")}
    keep(
        scoring,
        *(judged(number, True) for number in range(4)),
        *(judged(number, True, **vain) for number in range(10, 16)),
        judged(20, True, part=None, **vain),
        judged(21, True, part=JudgedPart.ESCALATED, **vain),
        judged(22, True, agent="other", **vain),
        judged(23, True, outcome=Unscored(status=Status.PENDING, reason="")),
        # They have a score of another version of the evaluator.
        judged(1, True, version="2", **vain),
    )
    [found] = rates(scoring)
    assert (found["judged"], found["unscored"]) == (4, 6)
    assert rate_notes(found)[1:] == ["6 of 10 drawn could not be scored"]
    keep(scoring, judged(10, False))
    assert (only(scoring)["judged"], only(scoring)["unscored"]) == (5, 5)
    keep(scoring, judged(30, False, **vain))
    assert only(scoring)["unscored"] == 6


def test_a_rate_names_the_models_that_it_is_by(scoring: Scoring) -> None:
    keep(scoring, judged(1, True, model="m3"), judged(2, True, model="m3"))
    assert only(scoring)["models"] == ["m3"]
    assert not any("model" in note for note in rate_notes(only(scoring)))
    keep(scoring, judged(3, True, model="m4"), judged(4, True, model="m4"))
    assert only(scoring)["models"] == ["m4", "m3"]
    assert rate_notes(only(scoring))[-1] == "by 2 models, the newest first: m4, m3"


def test_a_trace_that_was_judged_again_counts_once_by_its_newest_score(scoring: Scoring) -> None:
    keep(scoring, judged(1, False), judged(1, True, version="2", evaluated_at=START + 99), judged(2, True))
    assert (only(scoring)["judged"], only(scoring)["estimate"]) == (2, 1.0)


@pytest.mark.parametrize(
    "other", [{"drawn": False}, {"source": LabelSource.USER}, {"source": LabelSource.EVALUATOR}, {"name": "coherence"}]
)
def test_labels_that_are_not_random_or_of_others_never_mix_with_those_that_are(
    scoring: Scoring, other: dict[str, Any]
) -> None:
    keep(scoring, *(judged(number, True) for number in range(30)))
    for number in range(30):
        label(scoring, number, 0.0, **other)
    assert (only(scoring)["labelled"], only(scoring)["estimate"]) == (0, 1.0)


@pytest.mark.parametrize(("labels", "estimator"), [(19, "uncorrected"), (20, "labels"), (49, "labels"), (50, "ppi")])
def test_labels_count_by_the_share_of_them_among_what_the_judge_passes_and_fails(
    scoring: Scoring, labels: int, estimator: str
) -> None:
    """The judge passes 160 of 200. Half of the labels are of what it fails."""
    verdicts = [number % 5 > 0 for number in range(200)]
    keep(scoring, *(judged(number, passed) for number, passed in enumerate(verdicts)))
    told: dict[int, bool] = {}
    for passed, count in ((False, labels // 2), (True, labels - labels // 2)):
        of_verdict = [number for number in range(200) if verdicts[number] is passed][:count]
        told |= {number: passed if number % 3 else not passed for number in of_verdict}
    for number, value in told.items():
        label(scoring, number, value)
    shares = {False: (labels // 2) / 40, True: (labels - labels // 2) / 160}
    expected = pass_rate(
        JudgedTrace(f"s{number // 2}", passed, told.get(number), shares[passed] if number in told else 1.0)
        for number, passed in enumerate(verdicts)
    )
    found = only(scoring)
    assert (found["estimator"], found["labelled"], found["judged"]) == (estimator, labels, 200)
    assert found["estimate"] == pytest.approx(expected.estimate)
    assert found["interval"] == (None if expected.interval is None else pytest.approx(list(expected.interval)))
    assert found["sequence"] == (None if expected.sequence is None else pytest.approx(list(expected.sequence)))
    assert found["sensitivity"] == pytest.approx(expected.sensitivity)
    assert (found["reason"] is None) is (labels >= 20)


def test_where_nothing_that_the_judge_fails_has_a_label_nothing_is_corrected(scoring: Scoring) -> None:
    keep(scoring, *(judged(number, number < 60) for number in range(80)))
    for number in range(60):
        label(scoring, number, 1.0)
    found = only(scoring)
    assert (found["estimator"], found["estimate"], found["labelled"]) == ("uncorrected", 0.75, 60)
    assert found["reason"] == "nothing that the judge fails has a label"


@pytest.mark.slow  # A simulation.
def test_corrected_rates_of_drawn_labels_hold_the_truth(scoring: Scoring) -> None:
    """A judge that passes too much; people are right. Labels as they are drawn: as many of passes as of failures."""
    random, names = np.random.default_rng(3), [f"judge {number}" for number in range(60)]
    hits = 0
    for name in names:
        good = random.random(300) < 0.7
        passed = np.where(good, random.random(300) < 0.9, random.random(300) < 0.4)
        keep(scoring, *(judged(number, bool(each), name=name) for number, each in enumerate(passed)))
        for verdict in (True, False):
            for number in random.permutation(np.flatnonzero(passed == verdict))[:30]:
                label(scoring, int(number), float(good[number]), name=name)
    for found in rates(scoring, limit=100):
        low, high = found["interval"]
        assert found["estimator"] == "ppi"
        hits += low <= 0.7 <= high
    assert len(names) * 0.9 <= hits


def test_rates_are_by_agent_version_and_evaluator_and_come_in_pages(scoring: Scoring) -> None:
    keep(
        scoring,
        judged(1, True),
        judged(2, True, service_version="2"),
        judged(3, True, agent=None, service_version=None),
        judged(4, True, name="plan_quality"),
    )
    whole = [(each["agent"], each["version"], each["name"]) for each in rates(scoring)]
    assert whole == [
        ("planner", "1.2.0", "plan_quality"),
        (None, None, NAME),
        ("planner", "2", NAME),
        ("planner", "1.2.0", NAME),
    ]
    assert len(rates(scoring, agent="planner")) == 3
    assert len(rates(scoring, version="2")) == 1
    assert len(rates(scoring, name=NAME)) == 3
    first = scoring.queries.quality(limit=3)
    second = scoring.queries.quality(limit=3, cursor=first.next_cursor)
    assert [len(first.items), len(second.items), second.next_cursor] == [3, 1, None]


def test_a_rate_changes_with_every_judgement_and_every_label(scoring: Scoring) -> None:
    keep(scoring, judged(1, True), judged(2, False))
    assert (only(scoring)["estimate"], only(scoring)["labelled"]) == (0.5, 0)
    keep(scoring, judged(3, False))
    assert only(scoring)["estimate"] == pytest.approx(1 / 3)
    label(scoring, 1, 1.0)
    assert only(scoring)["labelled"] == 1
    keep(scoring, judged(2, True, evaluated_at=START + 100))
    assert only(scoring)["estimate"] == pytest.approx(2 / 3)


def test_only_the_newest_judgements_are_looked_at(scoring: Scoring) -> None:
    vain: Any = {"outcome": Unscored(status=Status.FAILED, reason="")}
    keep(scoring, *(judged(number, number > 10) for number in range(pass_rates.NEWEST + 11)))
    keep(scoring, judged(9000, True, evaluated_at=START + 5, **vain), judged(9001, True, **vain))
    assert only(scoring)["unscored"] == 1
    assert (only(scoring)["judged"], only(scoring)["estimate"]) == (pass_rates.NEWEST, 1.0)


@pytest.fixture
def labelled(scoring: Scoring) -> Scoring:
    """With 200 judged traces, 60 of them labelled, and one trace of another agent."""
    keep(scoring, *(judged(number, number % 5 > 0) for number in range(200)), judged(500, True, agent="other"))
    for number in range(60):
        label(scoring, number, number % 5 > 1)
    return scoring


def test_the_web_port_the_page_and_the_command_show_the_rates(labelled: Scoring) -> None:
    app = app_of(labelled.queries)
    with serve(app) as url:
        answer = asking.get(f"{url}/api/v1/quality", params={"agent": "planner"}).json()
        page = asking.get(f"{url}/quality").text
        refused = asking.get(f"{url}/api/v1/quality?cursor=x")
        table = agenteval("quality", "--url", url).stdout
        as_json = json.loads(agenteval("quality", "--agent", "planner", "--json", "--url", url).stdout)
    assert as_json == answer == {"items": rates(labelled, agent="planner"), "next_cursor": None}
    low, high = (f"{bound:.2f}" for bound in answer["items"][0]["interval"])
    assert f"{float(low):.0%}"[:-1] + f"–{float(high):.0%}" in page
    assert "judge, corrected by labels" in page
    assert f"{low}–{high}" in table
    assert "━●━" in table
    few = "no interval: 0 labels: 20 are needed for an interval"
    assert f"{NAME}, other in shop 1.2.0: {few}." in table
    assert f"<span>{few}</span>" in page
    told, (low, high) = answer["items"][0]["specificity"], answer["items"][0]["specificity_interval"]
    assert f"{told:.2f} [{low:.2f}, {high:.2f}]" in table
    assert f"{told:.2f} <small>{low:.2f} to {high:.2f}</small>" in page
    assert refused.status_code == 400


def test_what_the_judge_was_not_asked_about_is_guessed_for_its_own_rate(tmp_path: Path) -> None:
    """The judge fails nearly everything about flights, and is asked about every third session."""
    random = np.random.default_rng(11)
    referring = Referring({})
    scoring = Scoring(tmp_path, judging=referring)
    unjudged = Unscored(status=Status.SAMPLED_OUT, reason="not drawn")
    for number in range(240):
        about_flights = bool(random.random() < 0.4)
        passes = bool(random.random() < (0.1 if about_flights else 0.9))
        is_judged = number % 3 == 0
        referring.outcomes = {NAME: Score(value=float(passes), reason="") if is_judged else unjudged}
        referring.part = JudgedPart.RANDOM if is_judged else None
        asked = "Book me a flight to Lima next Tuesday" if about_flights else "Where is the parcel that I ordered"
        scoring.put(assembled(turn(number + 1, f"{asked}, please ({number})", "Done.", session=f"s{number}")))
        if number == 120:
            assert only(scoring)["by_judge"] is None
    by_judge = only(scoring)["by_judge"]
    (low, high), (least, most) = by_judge["interval"], by_judge["of_sample"]
    assert (by_judge["judged"], by_judge["guessed"]) == (80, 160)
    assert high - low < 0.9 * (most - least)
    assert least < low < by_judge["estimate"] < high
    assert by_judge["auroc"] > 0.8
    assert (only(scoring)["estimator"], only(scoring)["interval"]) == ("uncorrected", None)
    left_out = {trace_id(number + 1).hex() for number in range(240) if number % 3}
    assert len(by_judge["uncertain"]) == 20
    assert set(by_judge["uncertain"]) <= left_out
    assert beside(scoring) == 0
    taken_up = [number for number in range(240) if trace_id(number + 1).hex() in by_judge["uncertain"][:3]]
    agent, service, version, _ = scoring.queries.pass_rates.rated()[0]
    about: Any = {"agent": agent, "service": service, "service_version": version}
    about["evaluated_at"] = scoring.clock.now() + 1
    waits = Unscored(status=Status.PENDING, reason="asked")
    for number, outcome in zip(taken_up, [waits, Score(value=1.0, reason=""), waits], strict=True):
        keep(scoring, judged(number + 1, True, session_id=f"s{number}", outcome=outcome, part=None, **about))
    # With the next verdict of the sample, the guesses are made anew.
    keep(scoring, judged(1, True, session_id="s0", **about))
    assert beside(scoring) == 3
    assert set(only(scoring)["by_judge"]["uncertain"]).isdisjoint(trace_id(number + 1).hex() for number in taken_up)
    note = rate_notes(only(scoring))[-1]
    assert note.startswith("the judge would pass ")
    assert "of the 240 newest (80 judged)" in note
    scoring.close()


def beside(scoring: Scoring) -> int:
    """How many of what is guessed the judge was asked about, though it was not drawn."""
    [found] = scoring.queries.pass_rates.page(limit=1, cursor=None).items
    assert found.by_judge is not None
    return found.by_judge.beside


def test_goals_of_sessions_are_labelled_by_the_command_that_the_page_names(scoring: Scoring) -> None:
    goal: Any = {"name": "goal_success", "subject": SubjectKind.SESSION, "subject_id": "s1", "session_id": "s1"}
    keep(scoring, judged(1, True, **goal), judged(2, True))
    app = app_of(scoring.queries)
    with serve(app) as url:
        page = asking.get(f"{url}/quality").text
    assert "agenteval label --next goal_success" in page
    assert "/review?name=goal_success" not in page
    assert f"/review?name={NAME}" in page


def test_gauges_show_rates_and_the_bounds_of_those_that_have_some(labelled: Scoring) -> None:
    output = TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    try:
        output.versions.observe_pass_rates(labelled.queries.pass_rates.newest)
        lines = rendered(output).splitlines()
    finally:
        output.shutdown(1.0)
    series = dict(line.rsplit(" ", 1) for line in lines if line.startswith("agenteval_pass_rate"))
    evaluator = f'gen_ai_evaluation_name="{NAME}"'
    corrected = f'{{agenteval_estimator="ppi",gen_ai_agent_name="planner",{evaluator},service_version="1.2.0"}}'
    plain = f'{{agenteval_estimator="uncorrected",gen_ai_agent_name="other",{evaluator},service_version="1.2.0"}}'
    [found] = rates(labelled, agent="planner")
    assert {name: float(value) for name, value in series.items()} == {
        f"agenteval_pass_rate{corrected}": found["estimate"],
        f"agenteval_pass_rate_low{corrected}": found["interval"][0],
        f"agenteval_pass_rate_high{corrected}": found["interval"][1],
        f"agenteval_pass_rate{plain}": 1.0,
    }


def test_gauges_show_the_newest_versions_only(scoring: Scoring) -> None:
    keep(scoring, *(judged(number, True, service_version=str(number)) for number in range(5)))
    shown = [each.rated.version for each in scoring.queries.pass_rates.newest()]
    assert shown == ["4", "3", "2"]


def of_session(number: int, passed: bool, **changes: Any) -> Evaluation:
    """The judge's word on the goal of a session, which is called like a trace: it names none."""
    about = {
        "name": GOAL_SUCCESS,
        "subject": SubjectKind.SESSION,
        "session_id": trace_id(number).hex(),
        "trace_id": None,
    }
    # Labels are given at START.
    return judged(number, passed, **{**about, "evaluated_at": START - 1000 + number, **changes})


def label_session(scoring: Scoring, number: int, value: float, **changes: Any) -> None:
    about = {"session_id": trace_id(number).hex(), "name": GOAL_SUCCESS, "value": value, "drawn": True}
    scoring.store.label(Label(**{**about, **changes}))


def test_labels_of_sessions_correct_the_rate_at_which_goals_are_reached(scoring: Scoring) -> None:
    keep(scoring, *(of_session(number, number < 50) for number in range(80)))
    for number in range(20, 80):
        label_session(scoring, number, float(number < 40), author="ann")
    rate = only(scoring)
    assert (rate["name"], rate["judged"], rate["labelled"], rate["estimator"]) == (GOAL_SUCCESS, 80, 60, "ppi")
    low, high = rate["interval"]
    # The judge passes 50 of 80; of 30 that it passes and have a label people pass 20, of the others none.
    assert low < 50 / 80 * 20 / 30 < high < 50 / 80
    [agreed] = [each for each in scoring.queries.agreement(name=GOAL_SUCCESS) if each["source"] == "person"]
    assert (agreed["labels"], agreed["metrics"]["sensitivity"]) == (60, 1.0)


def test_what_people_said_of_a_session_before_it_went_on_is_left_aside(scoring: Scoring) -> None:
    keep(scoring, *(of_session(number, True) for number in range(2)))
    for number in range(2):
        label_session(scoring, number, 1.0)
    label_session(scoring, 1, 0.0, name="user_feedback", source=LabelSource.USER, drawn=False)
    keep(scoring, of_session(1, False, evaluated_at=START + 1, revision=2))
    assert (only(scoring)["judged"], only(scoring)["labelled"]) == (2, 1)
    agreed = {each["source"]: each["labels"] for each in scoring.queries.agreement(name=GOAL_SUCCESS)}
    assert agreed == {"person": 1, "user": 1}
    with scoring.store.snapshot() as records:
        assert len(records.session_labels(trace_id(1).hex())) == 2
    scoring.clock.advance(1)
    label_session(scoring, 1, 0.0)
    assert only(scoring)["labelled"] == 2


def test_a_label_of_a_trace_is_none_of_the_session_that_is_called_alike(scoring: Scoring) -> None:
    keep(scoring, of_session(1, True), judged(1, True, session_id=trace_id(1).hex()))
    label(scoring, 1, 0.0, name=GOAL_SUCCESS)
    label_session(scoring, 1, 0.0, name=NAME)
    label_session(scoring, 1, 0.0, drawn=False, author="bob")
    assert {each["name"]: each["labelled"] for each in rates(scoring)} == {NAME: 0, GOAL_SUCCESS: 0}
