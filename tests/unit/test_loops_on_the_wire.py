"""Behaviours as spans: the agent and the collector find the same loops, and few that are none."""

import json
from typing import Any

import pytest

from otel_agenteval.finding import Finding
from tests.support.api_forms import HELD_BACK, MORE, TUNED, ApiForm, Result
from tests.support.api_forms_unlisted import UNLISTED
from tests.support.behaviours import BEHAVIOURS
from tests.support.wire import DIALECTS, PLEASE, GenAI, OpenInference, Stage

SPOKEN = [json.loads(line) for line in (BEHAVIOURS / "as_spans.jsonl").read_text("utf-8").splitlines()]
SPOKEN_LATER = [json.loads(line) for line in (BEHAVIOURS / "more_as_spans.jsonl").read_text("utf-8").splitlines()]
REPORTED = [json.loads(line) for line in (BEHAVIOURS / "from_reports.jsonl").read_text("utf-8").splitlines()]
UNFORESEEN = [json.loads(line) for line in (BEHAVIOURS / "unforeseen.jsonl").read_text("utf-8").splitlines()]
FORMS = (*TUNED, *HELD_BACK, *MORE, *UNLISTED)
MISSED = [
    "graph query same cursor",  # A number that falls with each call may be progress.
    "ticket created again and again",  # Four times: each time a ticket, which `repeated_effect` tells.
    "japanese: not found",  # A form that the reader of outcomes does not know.
    "regex tried with flags",  # Empty results count as not recorded.
]
DOUBTED = ["captcha page on every url"]
OBSERVED = [
    "poll that waits inside the call, 30 s",
    "poll with sleeps 6x then done",
    "press key down in a menu",
    "zoom in on a map",
    "deploy waits inside 45 s",
]
NOT_SEEN = {
    ("OCR of a screen", True),  # Another question may find nearly the same text and be answered.
    ("curl -i", True),  # Nothing says that a body without content is a failure.
    ("YAML", False),  # A flag that is on and off by turns.
    ("YAML", True),
    ("BigQuery job", True),  # Counts of nothing as texts.
}


MORE_AND_MISSED = {
    "planner writes the plan anew and starts nothing",
    "calendar shows the same free slots between mails that are drafted",
    "s3 listing of an empty prefix, tried with and without a slash",
    "reviewer and writer with the same comment each time",
}


REPORTED_AND_MISSED = {
    "monologue: repeated 'I will submit' in near-equal words",
    # Of those put aside, after which no rule was written:
    "plan is rewritten with other step words",
    "SQL count asked under ever other alias",
}


UNFORESEEN_AND_MISSED = {
    "multi-agent: executor wants a clearer plan and gets the same one",
    # Of those put aside at the end, after which no rule was written:
    "sql: column is ambiguous in each rewrite",
    "support: ticket is escalated to and fro",
    "swedish: behörighet saknas",
    "voice: number read back and not understood",
    "spreadsheet: formula fails in each form",
}


def told(found: list[Finding]) -> set[tuple[str, bool]]:
    return {(each.kind, each.is_alarm) for each in found}


@pytest.mark.parametrize("dialect", [GenAI(), OpenInference()], ids=lambda dialect: dialect.name)
def test_most_loops_alarm_and_hardly_anything_else_does(dialect: GenAI | OpenInference) -> None:
    found: dict[str, set[tuple[str, bool]]] = {}
    for behaviour in SPOKEN:
        stage = Stage(dialect)
        stage.converse(behaviour["steps"], behaviour.get("asked", PLEASE))
        found[behaviour["does"]] = told(stage.told_in_the_agent())
        assert found[behaviour["does"]] == told(stage.told_when_complete()), behaviour["does"]
    # An answer that is repeated across the traces of a session is found in the session alone.
    looping = [each["does"] for each in SPOKEN if each["loops"] and all(step[0] != "asks" for step in each["steps"])]
    fine = [each["does"] for each in SPOKEN if not each["loops"]]
    alarms = {does for does, loops in found.items() if any(is_alarm for _, is_alarm in loops)}
    assert [does for does in looping if not found[does]] == MISSED
    assert [does for does in looping if found[does] and does not in alarms] == DOUBTED
    assert [does for does in fine if does in alarms] == []
    assert [does for does in fine if found[does]] == OBSERVED


@pytest.mark.parametrize("dialect", [GenAI(), OpenInference()], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("behaviour", SPOKEN_LATER, ids=lambda behaviour: behaviour["does"])
def test_most_loops_of_other_kinds_alarm_and_nothing_else_does(
    dialect: GenAI | OpenInference, behaviour: dict[str, Any]
) -> None:
    stage = Stage(dialect)
    stage.converse(behaviour["steps"], behaviour.get("asked", PLEASE))
    found = told(stage.told_in_the_agent())
    assert found == told(stage.told_when_complete())
    if all(step[0] != "asks" for step in behaviour["steps"]):
        is_expected = behaviour["loops"] and behaviour["does"] not in MORE_AND_MISSED
        assert any(is_alarm for _, is_alarm in found) is is_expected
    else:
        assert not found


@pytest.mark.parametrize("dialect", [GenAI(), OpenInference()], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("behaviour", REPORTED, ids=lambda behaviour: behaviour["does"])
def test_most_reported_loops_are_found_and_nothing_else_alarms(
    dialect: GenAI | OpenInference, behaviour: dict[str, Any]
) -> None:
    stage = Stage(dialect)
    stage.converse(behaviour["steps"], behaviour.get("asked", PLEASE))
    found = told(stage.told_in_the_agent())
    assert found == told(stage.told_when_complete())
    if behaviour["loops"]:
        assert bool(found) is (behaviour["does"] not in REPORTED_AND_MISSED)
    else:
        assert not any(is_alarm for _, is_alarm in found)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_most_unforeseen_loops_are_found_and_nothing_else_alarms(dialect: GenAI | OpenInference) -> None:
    for behaviour in UNFORESEEN:
        stage = Stage(dialect)
        stage.converse(behaviour["steps"], behaviour.get("asked", PLEASE))
        found = told(stage.told_in_the_agent())
        assert found == told(stage.told_when_complete()), behaviour["does"]
        if not behaviour["loops"]:
            assert not any(is_alarm for _, is_alarm in found), behaviour["does"]
        elif all(step[0] != "asks" for step in behaviour["steps"]):
            assert bool(found) is (behaviour["does"] not in UNFORESEEN_AND_MISSED), behaviour["does"]


def test_what_an_orchestrator_lets_an_agent_do_again_is_observed() -> None:
    """As in logs of Magentic-One: whatever page comes back, and other pages in between."""
    stage = Stage(GenAI())
    pages = iter(range(99))
    stage.play(
        [
            run
            for site in ("dojo", "gym", "hall")
            for run in (
                ("Orchestrator", [("says", f"Please look at the {site} again.")]),
                ("WebSurfer", [("calls", "click", {"target": "Opening hours"}, f"Page {next(pages)} of the {site}")]),
                ("Orchestrator", [("says", f"Now open the page of the {site}.")]),
                ("WebSurfer", [("calls", "open", {"address": f"https://{site}.example"}, f"Page {next(pages)}")]),
            )
        ]
    )
    assert told(stage.told_in_the_agent()) == told(stage.told_when_complete()) == {("no_progress", False)}


@pytest.mark.parametrize("dialect", [GenAI(), OpenInference()], ids=lambda dialect: dialect.name)
def test_where_no_content_is_recorded_nothing_else_alarms(dialect: GenAI | OpenInference) -> None:
    for behaviour in SPOKEN:
        stage = Stage(dialect, content=False)
        stage.converse(behaviour["steps"])
        found = told(stage.told_in_the_agent())
        assert found == told(stage.told_when_complete()), behaviour["does"]
        assert behaviour["loops"] or not any(is_alarm for _, is_alarm in found), behaviour["does"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("is_new", [False, True], ids=["the same arguments", "new arguments"])
def test_what_a_service_tells_again_is_no_progress(form: ApiForm, is_new: bool) -> None:
    found = calls(form, form.same, is_new=is_new)
    assert bool(found) is ((form.name, is_new) not in NOT_SEEN)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("is_new", [False, True], ids=["the same arguments", "new arguments"])
def test_progress_in_the_form_of_a_service_is_no_loop(form: ApiForm, is_new: bool) -> None:
    assert not any(each.is_alarm for each in calls(form, form.moving, is_new=is_new))


def calls(form: ApiForm, result: Result, *, is_new: bool) -> list[Finding]:
    stage = Stage(GenAI())
    asked = (form.asked(n if is_new else 0) for n in range(8))
    stage.converse([("calls", form.tool, each, form.told(result, n, is_new=is_new)) for n, each in enumerate(asked)])
    return stage.told_in_the_agent()
