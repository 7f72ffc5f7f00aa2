"""Labels that teach: what is drawn next, and `agenteval label --next` against a real collector."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from agenteval_collector.figures.quality import draw
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.pass_rates import JudgedScore
from agenteval_collector.serve.web.labelling import NOTHING_YET
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.outcome import JudgedPart, Method, Score, SubjectKind
from tests.integration.test_cli_read import agenteval
from tests.support import asking
from tests.support.evaluations import evaluation
from tests.support.judged_traces import NAME, TRACES, judge, judged_collector
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector


def scores(*verdicts: bool) -> list[JudgedScore]:
    return [JudgedScore(trace_id(number).hex(), "s", passed) for number, passed in enumerate(verdicts)]


def labelled(judged: list[JudgedScore], times: int) -> list[str]:
    """Label what is drawn, so many times; return what it was."""
    drawn = []
    for _ in range(times):
        found = draw(judged)
        if found is None:
            break
        assert found.trace_id is not None
        drawn.append(found.trace_id)
        judged[:] = [
            JudgedScore(each.subject_id, each.session_id, each.passed, True)
            if each.subject_id == found.trace_id
            else each
            for each in judged
        ]
    return drawn


@given(st.lists(st.booleans(), max_size=40), st.randoms())
def test_everything_is_drawn_once_whatever_the_order_of_records(verdicts: list[bool], random: Any) -> None:
    judged = scores(*verdicts)
    shuffled = random.sample(judged, len(judged))
    order = labelled(judged, 100)
    assert sorted(order) == sorted(each.subject_id for each in judged)
    assert labelled(shuffled, 100) == order


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 5))
def test_what_is_skipped_is_not_drawn_and_keeps_its_place(verdicts: list[bool], done: int) -> None:
    judged = scores(*verdicts)
    labelled(judged, done)
    first, skipped = draw(judged), set[str]()
    while (found := draw(judged, skip=skipped)) is not None:
        assert found.trace_id is not None
        assert found.trace_id not in skipped
        skipped.add(found.trace_id)
    assert skipped == {each.subject_id for each in judged if each.label is None}
    assert draw(judged) == first


def test_what_the_judge_fails_is_drawn_about_as_often_as_what_it_passes_and_cannot_be_guessed() -> None:
    judged = scores(*(number % 10 > 0 for number in range(2000)))
    verdict = {each.subject_id: each.passed for each in judged}
    drawn = [verdict[each] for each in labelled(judged, 200)]
    assert 75 <= sum(drawn) <= 125
    assert 60 <= sum(one == other for one, other in pairwise(drawn)) <= 140


def test_the_probability_is_the_share_of_labelled_ones_with_the_same_verdict() -> None:
    judged = scores(*(number % 4 > 0 for number in range(40)))
    verdict = {each.subject_id: each.passed for each in judged}
    for _ in range(20):
        found = draw(judged)
        assert found is not None
        [one] = labelled(judged, 1)
        alike = [each for each in judged if each.passed is verdict[one]]
        assert found.probability == sum(each.label is not None for each in alike) / len(alike)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with judged_collector(tmp_path) as running:
        yield running


def review(collector: RunningCollector, keys: str, *more: str) -> Any:
    address = f"http://{collector.addresses['web']}"
    return agenteval("label", "--next", NAME, "--by", "ann", "--url", address, *more, input=keys)


def test_a_key_press_labels_what_was_drawn_and_then_the_verdict_is_shown(collector: RunningCollector) -> None:
    first = collector.get(f"/api/v1/review/next?name={NAME}")
    assert collector.get(f"/api/v1/review/next?name={NAME}&skip=") == first
    told = review(collector, "xpq").stdout
    asked, _, after = told.partition("[q]uit? x")
    assert "Question" in asked
    assert "The judge" not in asked
    assert "so says the judge" not in asked
    assert "so says the judge" in after
    assert "19 more labels for an interval, about" in after
    [label] = collector.get(f"/api/v1/traces/{first['trace_id']}")["labels"]
    assert (label["name"], label["value"], label["author"]) == (NAME, 1.0, "ann")
    second = collector.get(f"/api/v1/review/next?name={NAME}")
    assert (first["labelled"], second["labelled"], second["judged"]) == (0, 1, TRACES)
    assert second["trace_id"] != first["trace_id"]


def test_what_was_said_before_in_the_session_is_shown_before_it(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as running:
        for number in (1, 2):
            running.send(traces(turn(number, f"Question {number}?", "It was sent.", session="s")))
            running.scored(trace_id(number).hex())
        judge(running, 2, 0.9)
        asked, _, _ = review(running, "q").stdout.partition("[q]uit?")
    before, _, now = asked.partition("--- to be judged")
    assert ("Question 1?" in before, "Question 2?" in before) == (True, False)
    assert ("Question 1?" in now, "Question 2?" in now) == (False, True)


def test_labels_drawn_in_a_row_make_an_interval_and_the_end_is_told(collector: RunningCollector) -> None:
    told = review(collector, "s" + "pf" * 20).stdout
    # The one that was left aside keeps its place.
    assert told.endswith(f"Nothing is left to be labelled for {NAME}.\n")
    [rate] = collector.get(f"/api/v1/quality?name={NAME}")["items"]
    assert (rate["labelled"], rate["estimator"]) == (TRACES - 1, "labels")
    assert rate["interval"][0] < rate["estimate"] < rate["interval"][1]
    assert collector.get(f"/api/v1/review/next?name={NAME}")["labelled"] == TRACES - 1


def test_a_label_of_a_trace_that_was_not_drawn_corrects_no_rate(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['web']}"
    assert agenteval("label", trace_id(1).hex(), NAME, "fail", "--url", url).exit_code == 0
    assert collector.get(f"/api/v1/quality?name={NAME}")["items"][0]["labelled"] == 0


def test_errors_are_named(collector: RunningCollector) -> None:
    web = f"http://{collector.addresses['web']}"
    assert asking.get(f"{web}/api/v1/review/next").json()["error"]["message"] == "name is missing"
    assert "hexadecimal" in asking.get(f"{web}/api/v1/review/next?name=x&skip=-1").json()["error"]["message"]
    assert asking.get(f"{web}/api/v1/review/next?name=nothing").status_code == 404
    assert "give TRACE, NAME and VALUE; or --session ID, NAME and VALUE; or --next NAME" in agenteval("label").stderr
    told = agenteval("label", "--next", "nothing", "--url", web)
    assert told.stdout == f"Nothing to label for nothing yet. {NOTHING_YET}\n"
    assert "give --next NAME alone" in review(collector, "", trace_id(1).hex()).stderr


def test_sessions_are_drawn_for_their_goals_and_shown_whole(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as running:
        sessions = ("s/1, x", "s/2, x")
        for number, session in enumerate(sessions, 1):
            for part in (1, 2):
                running.send(traces(turn(10 * number + part, f"Part {part} of {session}?", "Sent.", session=session)))
                running.scored(trace_id(10 * number + part).hex())
        goals: list[Any] = [
            {"subject_id": session, "session_id": session, "outcome": Score(value=0.9 - at / 2, reason="so it says")}
            for at, session in enumerate(sessions)
        ]
        goal: dict[str, Any] = {"name": "goal_success", "method": Method.LLM, "part": JudgedPart.RANDOM}
        judged = [evaluation(**goal, **each, subject=SubjectKind.SESSION) for each in goals]
        running.service.pipeline.base.store.commit(Commit(evaluations=judged))
        web = f"http://{running.addresses['web']}"
        told = agenteval("label", "--next", "goal_success", "--url", web, input="sp").stdout
        labels = {each: running.get(f"/api/v1/sessions/{quote(each, safe='')}")["labels"] for each in sessions}
    first, _, rest = told.partition("[q]uit? s")
    second, _, after = rest.partition("[q]uit? p")
    one, other = sessions if sessions[0] in first else sessions[::-1]
    for shown, session, not_shown in ((first, one, other), (second, other, one)):
        assert f"Part 1 of {session}?" in shown
        assert f"Part 2 of {session}?" in shown
        assert not_shown not in shown
        assert "so it says" not in shown
    assert "so it says" in after
    assert after.endswith("Nothing is left to be labelled for goal_success.\n")
    assert {each: len(found) for each, found in labels.items()} == {one: 0, other: 1}


def test_without_a_terminal_it_says_that_it_needs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal() -> str:
        raise OSError(6, "No such device or address", "/dev/tty")

    with judged_collector(tmp_path) as running:
        monkeypatch.setattr("typer.getchar", no_terminal)
        web = f"http://{running.addresses['web']}"
        done = agenteval("label", "--next", NAME, "--url", web)
    assert done.exit_code == 1
    assert "which needs a terminal" in done.stderr
