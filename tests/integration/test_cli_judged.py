"""`agenteval why`, `trace` and `agreement` about what a judge and people said, against a real web port."""

import json

from tests.integration.test_cli_read import agenteval, web
from tests.support.memory_queries import (
    GOOD_TRACE,
    MemoryQueries,
    agreement,
    exchange,
    label,
    outcome,
    session,
    trace,
    turn,
)
from tests.support.travel_agent import travel_agent
from tests.support.web_server import serve


def judged() -> MemoryQueries:
    """A trace that was judged, of which a person says something else."""
    document = trace(
        GOOD_TRACE,
        "s",
        turn("hi", "yes"),
        began=0,
        outcomes=[
            outcome("task_completion", 0.25, "half of it", method="llm", model="gpt-4o-mini"),
            outcome("plan_quality", None, "no valid reply", method="llm", status="failed", error_type="malformed"),
        ],
        labels=[label("task_completion", 1.0, "ann", "all was done")],
    )
    queries = MemoryQueries()
    queries.add(session("s", document, outcomes=[]), document)
    queries.asked[GOOD_TRACE] = [
        exchange(),
        exchange(question="plan", data="d" * 1000, reply=None, problem="no plan", usd=None, seconds=None, cached=True),
    ]
    return queries


def test_why_shows_what_the_judge_was_asked_and_what_people_say() -> None:
    with serve(web(judged())) as url:
        short, full = (agenteval("why", GOOD_TRACE, *more, "--url", url).stdout for more in ((), ("--full",)))
        document = json.loads(agenteval("why", GOOD_TRACE, "--json", "--url", url).stdout)
        shown = agenteval("trace", GOOD_TRACE, "--url", url).stdout
    output = " ".join(short.split())
    places = [
        output.index(text)
        for text in (
            "task_completion (llm by gpt-4o-mini, version 1) scored 0.25",
            "ann says that task_completion is 1.00: all was done",
            "plan_quality (llm, version 1) failed with malformed: no valid reply",
            "name another one in judge.model",
            "Requests to the judge: 1; answers known from earlier ones: 1.",
            "completion (version 1) gpt-4o-mini, 2026-03-02 09:04:00 UTC, 1.3 s, 420 + 31 tokens, $0.00012",
            "told Say how far",
            "tell the weather",
            '"verdict": 0.25',
            "plan (version 1)",
            "known from an earlier request",
            "problem no plan",
        )
    ]
    assert places == sorted(places)
    assert "d" * 1000 not in short.replace("\n", "").replace(" ", "")
    assert "d" * 1000 in full.replace("\n", "").replace(" ", "")
    assert document["judgements"] == judged().asked[GOOD_TRACE]
    assert "ann 1.00" in shown


def test_why_says_where_questions_are_not_kept_any_more() -> None:
    queries = judged()
    queries.asked.clear()
    with serve(web(queries)) as url:
        assert "not kept any more" in agenteval("why", GOOD_TRACE, "--url", url).stdout


def test_agreement_is_a_table_that_says_what_it_cannot() -> None:
    queries = travel_agent()
    with serve(web(queries)) as url:
        nothing = agenteval("agreement", "--url", url).stdout
        assert "no score has a label" in nothing
        assert "A label counts once its trace has a score of that NAME" in nothing
        queries.agreements = [agreement("task_completion", 24)]
        enough = agenteval("agreement", "--url", url).stdout
        undefined = {**queries.agreements[0]["metrics"], "kappa": None}
        queries.agreements += [
            agreement("confidence", 1, metrics=undefined, reasons={"kappa": "every labelled trace passes"}, older=None)
        ]
        few = agenteval("agreement", "--url", url).stdout
        one = json.loads(agenteval("agreement", "--name", "confidence", "--json", "--url", url).stdout)
    assert "0.62 [0.41, 0.80]" in enough
    assert "0.50 → 0.90" in enough
    assert "was labelled by: ann 24" in enough
    assert "no kappa" not in enough
    assert "confidence, labels by person: no kappa: every labelled trace passes" in few
    assert one["items"] == queries.agreements[1:]


def test_rows_of_agreement_that_would_be_alike_say_their_version_and_model() -> None:
    queries = travel_agent()
    reasons = {"kappa": "not enough labels: 3 of 10"}
    queries.agreements = [
        agreement("task_completion", 24, model="m3"),
        agreement("task_completion", 3, model="m4", reasons=reasons),
        agreement("coherence", 24),
    ]
    with serve(web(queries)) as url:
        lines = agenteval("agreement", "--url", url).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == [
        "task_completion (llm, version 1, m3)",
        "task_completion (llm, version 1, m4)",
        "coherence",
    ]
    assert "task_completion (llm, version 1, m4), labels by person: no kappa: not enough labels: 3 of 10" in lines
