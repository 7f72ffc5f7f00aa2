"""Listings of sessions: which, in which order, page by page, on a real store."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.offline import NothingRuns
from agenteval_collector.app.scoring import reliability_reports
from agenteval_collector.config.settings import Settings
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.news import no_events
from agenteval_collector.model.running_traces import RunningTrace
from agenteval_collector.model.session_filter import EVERY_SESSION, Below, Order, SessionFilter
from agenteval_collector.model.sessions import SessionState, SessionUpdate
from agenteval_collector.model.trace_view import view_of
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.trace_documents import SessionItem
from agenteval_collector.stores.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation, Method, Score
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.evaluations import evaluation
from tests.support.findings import finding, loop_found
from tests.support.inputs import inputs
from tests.support.no_spans import NO_SPANS
from tests.support.plans import plan_of

pytestmark = pytest.mark.databases

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
ATTENTION = SessionFilter(order=Order.ATTENTION)
ERROR = {"kind": "no_answer", "severity": Severity.ERROR}
WARNING = {"kind": "tool_failed", "severity": Severity.WARNING}
INFO = {"kind": "value_not_said", "severity": Severity.INFO}
EFFORT = {"kind": "unusual_effort", "severity": Severity.INFO}


def commit_of(number: int, *found: dict[str, Any], judged: float | None = None, **changes: Any) -> Commit:
    """Session `s00`, `s01` and so on, each of one trace, seen one second after the other."""
    session_id, trace_id = f"s{number:02}", f"{number:032x}"
    said = {
        "user_id": None, "agent": "planner", "service": "shop", "services": ("shop",), "versions": ("1.2.0",),
        "trace_count": 1,
        "started_at": START, "last_seen_at": START + number * SECOND,
    }  # fmt: skip
    about = {"text": "", **changes}
    findings: list[Finding] = [finding(**{"trace_id": trace_id, "session_id": session_id, **each}) for each in found]
    trace = ScoredTrace(
        view=view_of(Trace(trace_id=trace_id, started_at=START), session_id=session_id, revision=1, complete=True),
        offsets=(), scored_at=START, findings=findings, text=about.pop("text").casefold(),
    )  # fmt: skip
    record = SessionState(session_id=session_id, **{**said, **about})
    return Commit(
        traces=[trace],
        evaluations=[] if judged is None else [judgement(trace_id, session_id, judged)],
        sessions={session_id: SessionUpdate(state=record, evaluations=[])},
    )


def judgement(trace_id: str, session_id: str, score: float) -> Evaluation:
    return evaluation(
        name="task_completion", method=Method.LLM, subject_id=trace_id, trace_id=trace_id, session_id=session_id,
        outcome=Score(value=score, reason="as it says"),
    )  # fmt: skip


class Listed(NothingRuns):
    """A store, and the listings of it."""

    def __init__(self, path: Path) -> None:
        self.store = Store(database_in(path), ManualClock(), events_of=no_events)
        self.running: list[RunningTrace] = []
        clock = ManualClock(START)
        self.queries = Queries(
            self.store,
            clock,
            idle=900,
            reliability=reliability_reports(Settings(), self.store, clock),
            running=self,
            judge=self,
            drifts=tuple,
            spans=NO_SPANS,
        )

    def add(self, number: int, *found: dict[str, Any], **changes: Any) -> None:
        self.store.commit(commit_of(number, *found, **changes))

    def traces(self) -> list[RunningTrace]:
        return self.running

    def run(self, session_id: str, trace_id: str, **changes: Any) -> None:
        """A session of which only a running trace is known."""
        about = {"user_id": None, "agent": "planner", "service": "shop", "started_at": START, **changes}
        self.running.append(RunningTrace(trace_id=trace_id, session_id=session_id, **about))

    def pages(self, wanted: SessionFilter = EVERY_SESSION, limit: int = 50) -> list[list[str]]:
        found, cursor = [], None
        while True:
            page = self.queries.sessions(wanted, limit=limit, cursor=cursor)
            found.append([item["session_id"] for item in page.items])
            cursor = page.next_cursor
            if cursor is None:
                return found

    def ids(self, wanted: SessionFilter = EVERY_SESSION) -> list[str]:
        return [each for page in self.pages(wanted) for each in page]

    def item(self, session_id: str) -> SessionItem:
        [item] = [each for each in self.queries.sessions().items if each["session_id"] == session_id]
        return item


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    made = Listed(tmp_path)
    yield made
    made.store.shutdown()


def test_what_should_be_looked_at_first_comes_first(listed: Listed) -> None:
    listed.add(1, ERROR)
    listed.add(2, WARNING, judged=0.2)
    listed.add(3, WARNING)
    listed.add(4, judged=0.2)
    listed.add(5, EFFORT)
    listed.add(6, INFO)
    listed.add(7, judged=0.9)
    listed.add(8, ERROR, EFFORT)
    assert listed.ids(ATTENTION) == ["s08", "s01", "s02", "s03", "s04", "s05", "s07", "s06"]
    assert listed.ids() == [f"s{number:02}" for number in reversed(range(1, 9))]


def test_a_judgement_that_comes_later_changes_the_place_of_its_session(listed: Listed) -> None:
    listed.add(1)
    listed.add(2)
    assert listed.ids(ATTENTION) == ["s02", "s01"]
    listed.store.commit(Commit(evaluations=[judgement(f"{1:032x}", "s01", 0.1)]))
    assert listed.ids(ATTENTION) == ["s01", "s02"]
    assert listed.item("s01")["flagged_traces"] == [f"{1:032x}"]
    listed.store.commit(Commit(evaluations=[judgement(f"{1:032x}", "s01", 0.9)]))
    assert (listed.ids(ATTENTION), listed.item("s01")["flagged_traces"]) == (["s02", "s01"], [])


def test_items_say_how_bad_it_is_and_what_is_flagged(listed: Listed) -> None:
    listed.add(1, ERROR, WARNING, WARNING, INFO)
    listed.add(2, WARNING)
    listed.add(3)
    bad, warned, fine = (listed.item(f"s0{number}") for number in (1, 2, 3))
    assert (bad["worst"], bad["findings_count"]) == ("error", {"error": 1, "warning": 2, "info": 1})
    assert (bad["flagged_traces"], warned["flagged_traces"]) == ([f"{1:032x}"], [])
    assert (warned["worst"], fine["worst"], fine["findings"]) == ("warning", "none", [])
    document = listed.queries.session("s01")
    assert document is not None
    assert {name: document[name] for name in ("worst", "findings_count", "flagged_traces")} == {
        name: bad[name] for name in ("worst", "findings_count", "flagged_traces")
    }
    assert [each["kind"] for each in document["findings"]].count("tool_failed") == 2


def test_a_finding_without_a_score_and_a_score_by_others_than_the_judge_flag_as_they_should(listed: Listed) -> None:
    low = evaluation(
        subject_id=f"{1:032x}", trace_id=f"{1:032x}", session_id="s01", outcome=Score(value=0.1, reason="far off")
    )
    listed.add(1, INFO)
    listed.store.commit(Commit(evaluations=[low]))
    assert listed.item("s01")["flagged_traces"] == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param({"agent": "writer"}, ["s02"], id="an agent"),
        pytest.param({"service": "b"}, ["s02"], id="a service among several"),
        pytest.param({"version": "2.0"}, ["s02"], id="a version among several"),
        pytest.param({"user": "u-7"}, ["s02"], id="a user"),
        pytest.param({"finding": "tool_failed"}, ["s03", "s01"], id="a kind of finding"),
        pytest.param({"severity": Severity.WARNING}, ["s03", "s01"], id="a severity"),
        pytest.param({"finding": "tool_failed", "severity": Severity.ERROR}, [], id="one finding that is both"),
        pytest.param({"below": Below("task_completion", 0.5)}, ["s02"], id="a low score"),
        pytest.param({"below": Below("task_completion", 0.2)}, [], id="at the bound is not below it"),
        pytest.param({"text": "STRASSE"}, ["s02"], id="what was said, in another case"),
        pytest.param({"text": "50%_off"}, ["s01"], id="characters that mean something to LIKE"),
        pytest.param({"text": "50 off"}, [], id="nobody said that"),
        pytest.param({"since": START + 2 * SECOND}, ["s03", "s02"], id="since"),
        pytest.param({"until": START + 2 * SECOND}, ["s01"], id="until"),
        pytest.param({"agent": "planner", "severity": Severity.ERROR}, ["s01"], id="several at once"),
    ],
)
@pytest.mark.parametrize("order", Order)
def test_a_listing_has_what_is_asked_for(
    listed: Listed, order: Order, wanted: dict[str, Any], found: list[str]
) -> None:
    listed.add(1, ERROR, WARNING, text="50%_off, and bananas")
    listed.add(
        2, agent="writer", services=("a", "b"), versions=("1.0", "2.0"), user_id="u-7", judged=0.2, text="in der Straße"
    )
    listed.add(3, WARNING)
    assert sorted(listed.ids(SessionFilter(order=order, **wanted)), reverse=True) == found


@settings(max_examples=inputs(0.2))
@given(
    ranks=st.lists(st.sampled_from([(), (INFO,), (EFFORT,), (WARNING,), (ERROR,), (ERROR, EFFORT)]), max_size=12),
    limit=st.integers(1, 5),
    order=st.sampled_from(Order),
)
def test_pages_put_together_are_the_listing(
    tmp_path_factory: pytest.TempPathFactory, ranks: list[Sequence[dict[str, Any]]], limit: int, order: Order
) -> None:
    listed = Listed(tmp_path_factory.mktemp("s"))
    for number, found in enumerate(ranks):
        # Pairs share a time, so that the id has to decide.
        listed.add(number, *found, last_seen_at=START + number // 2 * SECOND)
    wanted = SessionFilter(order=order)
    pages = listed.pages(wanted, limit)
    assert [each for page in pages for each in page] == listed.ids(wanted)
    assert all(len(page) == limit for page in pages[:-1])
    listed.store.shutdown()


def test_the_cursor_of_one_order_leads_nowhere_in_the_other(listed: Listed) -> None:
    listed.add(1)
    listed.add(2)
    for order, other in ((Order.NEWEST, Order.ATTENTION), (Order.ATTENTION, Order.NEWEST)):
        cursor = listed.queries.sessions(SessionFilter(order=order), limit=1).next_cursor
        with pytest.raises(InvalidRequest, match="cursor"):
            listed.queries.sessions(SessionFilter(order=other), cursor=cursor)


@pytest.mark.parametrize(
    ("wanted", "is_listed"),
    [
        pytest.param({}, True, id="any"),
        pytest.param({"service": "shop", "agent": "planner"}, True, id="of its service and agent"),
        pytest.param({"service": "other"}, False, id="of another service"),
        pytest.param({"finding": "identical_call", "severity": Severity.ERROR}, True, id="with its loop"),
        pytest.param({"finding": "cycle"}, False, id="with another loop"),
        pytest.param({"version": "1.2.0"}, False, id="of a version, which is not known yet"),
        pytest.param({"text": "hello"}, False, id="with a text, which is not known yet"),
        pytest.param({"until": START}, False, id="before now"),
    ],
)
def test_a_session_that_only_runs_is_listed_where_it_may_be_meant(
    listed: Listed, wanted: dict[str, Any], is_listed: bool
) -> None:
    listed.add(1, ERROR)
    trace_id = "f" * 32
    listed.run("new", trace_id)
    listed.store.findings.keep([loop_found(trace_id=trace_id, session_id=trace_id)])
    assert ("new" in listed.ids(SessionFilter(**wanted))) == is_listed


def test_by_attention_a_session_that_only_runs_has_its_place_on_the_first_page(listed: Listed) -> None:
    listed.add(1, ERROR)
    listed.add(2)
    listed.run("calm", "e" * 32)
    listed.run("loops", "f" * 32)
    listed.store.findings.keep([loop_found(trace_id="f" * 32, session_id="f" * 32)])
    assert listed.pages(ATTENTION, 3) == [["loops", "s01", "calm"], ["s02"]]


def test_a_session_is_ordered_by_what_its_last_trace_took(listed: Listed) -> None:
    commit = commit_of(1, effort=Effort(steps=9, asked=30, answered=50))
    first = replace(commit.traces[0], effort=Effort(steps=7, asked=10, answered=40))
    view = replace(first.view, trace_id="f" * 32, started_at=START + 1)
    last = replace(first, view=view, effort=Effort(steps=2, asked=20, answered=10))
    listed.store.commit(replace(commit, traces=[last, first]))
    with listed.store.snapshot() as records:
        [row] = records.attention(ATTENTION, 10)
    assert (row.effort.asked, row.last.answered, row.last.steps) == (30, 10, 2)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        pytest.param(EVERY_SESSION, "sessions_by_last_seen", id="newest"),
        pytest.param(ATTENTION, "sessions_by_attention", id="attention"),
        pytest.param(SessionFilter(finding="cycle"), "findings_by_session", id="a finding"),
        pytest.param(SessionFilter(below=Below("coherence", 0.5)), "outcomes_by_session", id="a score"),
    ],
)
def test_a_listing_goes_by_an_index(listed: Listed, wanted: SessionFilter, index: str) -> None:
    with listed.store.snapshot() as records:
        plan = plan_of(listed.store.outside.engine, lambda: records.sessions(wanted, None, 50))
    assert any(index in step for step in plan), plan
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in plan), plan


@pytest.mark.sqlite
def test_judged_failures_are_found_without_a_look_at_all_outcomes_of_a_session(listed: Listed) -> None:
    listed.add(1, judged=0.2)
    with listed.store.snapshot() as records:
        plans = [
            plan_of(listed.store.outside.engine, lambda: records.judged_failures(["s01"])),
            plan_of(listed.store.outside.engine, lambda: records.flagged_traces(["s01"])),
        ]
    for plan in plans:
        [step] = [step for step in plan if "outcomes" in step]
        assert "COVERING INDEX outcomes_below" in step


@pytest.mark.sqlite
def test_few_traces_are_looked_at_for_what_few_said(listed: Listed) -> None:
    listed.add(1, text="hello")
    with listed.store.snapshot() as records:
        plan = plan_of(listed.store.outside.engine, lambda: records.sessions(SessionFilter(text="hello"), None, 50))
    assert any("said_index VIRTUAL TABLE" in step for step in plan), plan
    assert any("SEARCH traces USING INTEGER PRIMARY KEY" in step for step in plan), plan
