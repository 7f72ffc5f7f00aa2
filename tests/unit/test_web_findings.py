"""Findings on the page: where they stand, and that what was recorded stays where it is."""

import re

import pytest
from agenteval_collector.cli.tables import session_table
from agenteval_collector.serve.web.findings import judged_low, placed

from tests.support.memory_queries import GOOD_TRACE, NOW, MemoryQueries, call, finding, outcome, session, trace, turn
from tests.support.travel_agent import travel_agent
from tests.unit.test_cli_tables import printed
from tests.unit.test_web_pages import Elements, listed, session_page, trace_page


def test_findings_come_before_all_else_each_at_its_turn_and_its_call() -> None:
    hostile = finding(reason="<script>alert(1)</script> was called 3 times", mode="observe", severity="warning")
    member = trace(
        GOOD_TRACE,
        "s",
        turn("first", "one"),
        turn("second", "two", call("lookup", span_id="a" * 16), call("lookup", span_id="b" * 16)),
        began=0,
        findings=[
            finding("unusual_effort", "info", turn=None, tool=None, span_id=None, reason="more than usual"),
            finding("tool_failed", "warning", turn=1, span_id="b" * 16, reason="lookup failed: timeout"),
            finding("turn_failed", "error", turn=1, tool=None, span_id="c" * 16, reason="the turn ended in an error"),
            hostile,
        ],
    )
    places = placed(member)
    assert [each["kind"] for each in places.whole] == ["unusual_effort"]
    assert [[each["kind"] for each in some] for some in places.turns] == [["identical_call"], ["turn_failed"]]
    assert [[each["kind"] for each in some] for some in places.calls[1]] == [[], ["tool_failed"]]
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[]), member)
    shown = Elements(trace_page(queries, GOOD_TRACE))
    text = " ".join(shown.text.split())
    assert [name for name, _ in shown.elements].count("script") == 1
    order = ["Findings error turn failed", "<script>alert(1)", "more than usual", "Scores", "Conversation", "Turn 1"]
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)
    assert "only observed" in text
    conversation = text[text.index("Conversation") :]
    order = ["more than usual", "Turn 1", "<script>", "Turn 2", "the turn ended", "lookup", "lookup failed: timeout"]
    assert [conversation.index(each) for each in order] == sorted(conversation.index(each) for each in order)
    links = [each["href"] for name, each in shown.elements if name == "a"]
    assert f"/traces/{GOOD_TRACE}#turn-2" in links
    assert "turn-2" in [each.get("id") for _, each in shown.elements]


def test_nothing_that_was_recorded_turns_the_direction_of_a_page() -> None:
    member = trace(GOOD_TRACE, "s", turn("\u202egnp.exe", "\u2066yes"), began=0)
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[]), member)
    shown = trace_page(queries, GOOD_TRACE)
    assert not set("\u202e\u2066") & set(shown)
    assert "\N{REPLACEMENT CHARACTER}gnp.exe" in shown


def test_a_session_has_its_findings_by_kind_the_worst_first() -> None:
    text = " ".join(Elements(session_page(travel_agent(), "refund-1187")).text.split())
    assert "Findings error repeated answer 3 times" in text
    assert "trace #3 turn 1" in text
    assert text.index("repeated answer") < text.index("Scores") < text.rindex("Conversation")
    assert "error: repeated answer" in text[text.rindex("Traces") :]


@pytest.mark.parametrize(
    ("status", "failures", "shown"),
    [
        pytest.param("no_content", 0, None, id="no judge, because nothing was recorded"),
        pytest.param("over_budget", 0, None, id="no judge, because the budget was spent"),
        pytest.param("over_budget", 2, 2, id="some judgements"),
        pytest.param("scored", 0, 0, id="all judgements, none of them low"),
    ],
)
def test_no_score_is_low_only_where_there_are_scores(status: str, failures: int, shown: int | None) -> None:
    reliability = outcome("agent_reliability", 1.0 if status == "scored" else None, "", status=status)
    member = trace(GOOD_TRACE, "s", began=0)
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[reliability], judged_failures=failures), member)
    [item] = queries.sessions().items
    assert judged_low(item) == shown
    mark = "–" if shown is None else str(shown)
    [cell] = re.findall(r'data-label="Judged low">\s*<span class="\w+">(.*?)<', listed(queries))
    assert cell == mark
    heading, row = printed(session_table([item], now=NOW, width=160), 160)
    assert row[: heading.index("judged low") + len("judged low")].split()[-1] == mark
