"""Findings in a real store: each once, whoever finds it, and named when its trace is complete."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.emit.events import events_of
from agenteval_collector.live.stage import NAMED_WITHIN, Announcer
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.news import News, WorstFinding, no_events
from agenteval_collector.model.sessions import SessionState, SessionUpdate
from agenteval_collector.model.shown_findings import MAX_SHOWN
from agenteval_collector.model.trace_view import view_of
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.serve.api.trace_rendering import found_document
from agenteval_collector.stores.schema import sessions
from agenteval_collector.stores.store import Store
from sqlalchemy import select

from otel_agenteval.finding import Finding, Mode, Severity
from otel_agenteval.model import Trace
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.findings import SPAN_ID, TRACE_ID, finding, loop_found
from tests.support.plans import plan_of

pytestmark = pytest.mark.databases

OTHER_SPAN = "0" * 16


@pytest.fixture
def telling(tmp_path: Path) -> Iterator[Store]:
    made = Store(database_in(tmp_path, "telling.db"), ManualClock(), events_of=events_of)
    yield made
    made.shutdown()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(database_in(tmp_path), ManualClock(), events_of=no_events)
    yield made
    made.shutdown()


class Told:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.told: list[Finding] = []
        self.counted: list[Finding] = []

    def take_news(self, news: News) -> None:
        self.told += news.to_tell
        self.counted += news.counted


def unnamed(**changes: Any) -> Finding:
    """ShownFindings before anything told whose the trace is."""
    return loop_found(**{"session_id": TRACE_ID, "agent": None, "service": None, "service_version": None, **changes})


def complete(store: Store, *found: Finding, revision: int = 1, session_id: str = "s-1", **changes: Any) -> News:
    """Commit a revision of the trace that shows these."""
    record = ScoredTrace(
        view=view_of(Trace(trace_id=TRACE_ID, started_at=1), session_id=session_id, revision=revision, complete=True),
        offsets=(),
        scored_at=2,
        **{"findings": found, "agent": "guide", "service": "shop", "service_version": "1.2.0", **changes},
    )
    session = SessionState(
        session_id=session_id,
        user_id=None,
        agent="guide",
        service="shop",
        services=("shop",),
        versions=("1.2.0",),
        started_at=1,
        last_seen_at=2,
        trace_count=1,
    )
    return store.commit(Commit(traces=[record], sessions={session_id: SessionUpdate(state=session, evaluations=[])}))


def shown(store: Store, session_id: str | None = None) -> list[Any]:
    with store.snapshot() as records:
        if session_id is not None:
            found = records.found_in_sessions({session_id: ()})[session_id]
        else:
            found = records.found_in_traces([TRACE_ID])[TRACE_ID]
    return list(found_document(found)["findings"])


def worst_and_attention(store: Store, session_id: str) -> tuple[int, int, int, int]:
    with store.outside.engine.connect() as connection:
        found = select(sessions.c["errors", "warnings", "infos", "attention"])
        row = connection.execute(found.where(sessions.c.session_id == session_id)).one()
    return tuple(row)


def test_a_finding_is_new_once_by_trace_kind_and_span(store: Store) -> None:
    first = loop_found()
    others = [loop_found(kind="cycle"), loop_found(span_id=OTHER_SPAN), loop_found(trace_id="1" * 32)]
    assert store.findings.keep([first, first]).to_tell == [first]
    news = store.findings.keep([loop_found(reason="said otherwise"), *others])
    assert sorted(map(str, news.to_tell)) == sorted(map(str, others))
    again = store.findings.keep(others)
    assert (again.to_tell, again.counted) == ([], [])


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        pytest.param([SPAN_ID], [], id="the same loop"),
        pytest.param([OTHER_SPAN], [], id="the same loop, counted otherwise"),
        pytest.param([SPAN_ID, OTHER_SPAN], [OTHER_SPAN], id="another loop, found by who found the first"),
        pytest.param([OTHER_SPAN, "1" * 16], ["1" * 16], id="one of two stands for the known one"),
    ],
)
@pytest.mark.parametrize("is_complete", [False, True], ids=["by who counts live", "in the complete trace"])
def test_a_loop_that_is_counted_otherwise_is_not_another_one(
    store: Store, spans: list[str], told: list[str], is_complete: bool
) -> None:
    store.findings.keep([loop_found()])
    again = [loop_found(span_id=span_id) for span_id in spans]
    other_kind = loop_found(kind="cycle", span_id=OTHER_SPAN)
    found = [*again, other_kind]
    news = complete(store, *found) if is_complete else store.findings.keep([], found)
    assert {(each.kind, each.span_id) for each in news.to_tell} == {
        ("cycle", OTHER_SPAN), *(("identical_call", each) for each in told),
    }  # fmt: skip


def test_a_loop_that_is_carried_by_its_span_is_none_of_those_that_are_counted(store: Store) -> None:
    store.findings.keep([loop_found()])
    carried = loop_found(span_id=OTHER_SPAN)
    assert store.findings.keep([carried]).to_tell == [carried]


def test_what_was_told_without_a_name_is_named_with_the_complete_trace_and_not_told_again(store: Store) -> None:
    found = unnamed()
    first = store.findings.keep([found])
    assert (first.to_tell, first.counted) == ([found], [])
    news = complete(store, loop_found(span_id=OTHER_SPAN), turn_of={SPAN_ID: 2})
    named = replace(found, session_id="s-1", agent="guide", service="shop", service_version="1.2.0", turn=2)
    assert (news.to_tell, news.counted) == ([], [named])
    assert [(each["agent"], each["turn"]) for each in shown(store, "s-1")] == [("guide", 2)]
    assert complete(store, revision=2).counted == []


def test_a_trace_that_turns_out_to_be_of_another_session_takes_its_findings_along(store: Store) -> None:
    complete(store, loop_found(), finding(kind="tool_failed"))
    complete(store, loop_found(), finding(kind="tool_failed"), revision=2, session_id="s-2")
    assert (len(shown(store, "s-1")), len(shown(store, "s-2"))) == (0, 2)
    assert (worst_and_attention(store, "s-1"), worst_and_attention(store, "s-2")) == ((0, 0, 0, 0), (1, 1, 0, 8))


def test_a_new_revision_replaces_what_only_complete_traces_show_and_counts_it_once(store: Store) -> None:
    same, gone, new = (finding(kind=kind) for kind in ("tool_failed", "no_answer", "answer_cut"))
    told = loop_found(kind="cycle")
    assert complete(store, told, same, gone).counted == [told, same, gone]
    news = complete(store, replace(same, found_at=9), new, revision=2)
    assert (news.to_tell, news.counted) == ([], [new])
    assert [(each["kind"], each["mode"]) for each in shown(store)] == [
        ("answer_cut", None), ("cycle", "alarm"), ("tool_failed", None),
    ]  # fmt: skip
    assert {each["found_at"] for each in shown(store)} == {"1970-01-01T00:00:00.000000Z"}, "when it was found first"


def test_effort_which_the_trace_alone_does_not_show_outlives_its_revisions(store: Store) -> None:
    effort = finding(kind="unusual_effort", severity=Severity.INFO, span_id=None)
    assert complete(store).counted == []
    assert store.commit(Commit(findings=[effort])).counted == [effort]
    complete(store, revision=2)
    assert [each["kind"] for each in shown(store)] == ["unusual_effort"]


def test_two_revisions_in_one_commit_leave_what_the_second_shows(store: Store) -> None:
    records = []
    for revision, kind in ((1, "no_answer"), (2, "answer_cut")):
        trace = Trace(trace_id=TRACE_ID, started_at=1)
        view = view_of(trace, session_id="s-1", revision=revision, complete=True)
        records.append(ScoredTrace(view=view, offsets=(), scored_at=2, findings=[finding(kind=kind)]))
    store.commit(Commit(traces=records))
    assert [each["kind"] for each in shown(store)] == ["answer_cut"]


def test_findings_of_one_kind_on_one_span_are_several(store: Store) -> None:
    several = [finding(kind="value_not_said", reason=f"value {number}") for number in range(3)]
    assert complete(store, *several).counted == several
    assert complete(store, *several, revision=2).counted == []
    assert [each["reason"] for each in shown(store)] == [each.reason for each in several]


def test_what_is_told_at_completion_is_told_once(store: Store) -> None:
    told = finding(kind="tool_failed", mode=Mode.OBSERVE)
    assert complete(store, told).to_tell == [told]
    assert complete(store, told, revision=2).to_tell == []


@pytest.mark.parametrize(
    ("live", "found", "worst"),
    [
        pytest.param([], [], None, id="nothing was found"),
        pytest.param([], [("value_not_said", Severity.INFO), ("no_answer", Severity.ERROR)], Severity.ERROR, id="two"),
        pytest.param([loop_found(mode=Mode.OBSERVE)], [("value_not_said", Severity.INFO)], Severity.WARNING, id="live"),
    ],
)
def test_a_trace_counts_once_by_its_worst_finding(
    store: Store, live: Sequence[Finding], found: list[tuple[str, Severity]], worst: Severity | None
) -> None:
    store.findings.keep(live)
    findings = [finding(kind=kind, severity=severity) for kind, severity in found]
    assert complete(store, *live, *findings).traces == [WorstFinding(worst, "guide", "shop", "1.2.0")]
    assert complete(store, loop_found(), revision=2).traces == []


def test_telemetry_of_no_agent_counts_for_none(store: Store) -> None:
    assert complete(store, in_session=False).traces == []


def test_a_session_counts_once_when_it_is_over(store: Store) -> None:
    complete(store, finding(kind="no_answer", severity=Severity.ERROR))
    assert store.finalize(["s-1", "none"]).sessions == [WorstFinding(Severity.ERROR, "guide", "shop", "1.2.0")]
    complete(store, revision=2)
    assert store.finalize(["s-1"]).sessions == [], "going on does not make it count again"


def test_a_session_is_looked_at_by_what_was_found_in_it(store: Store) -> None:
    complete(store)
    assert worst_and_attention(store, "s-1") == (0, 0, 0, 0)
    complete(store, finding(kind="unusual_effort", severity=Severity.INFO), finding(kind="tool_failed"), revision=2)
    assert worst_and_attention(store, "s-1") == (0, 1, 1, 5)
    store.findings.keep([loop_found(trace_id="1" * 32)])
    assert worst_and_attention(store, "s-1") == (1, 1, 1, 9), "a loop found live is of the session, too"


def test_what_nobody_names_counts_after_a_while_and_once(store: Store) -> None:
    clock, sink = ManualClock(), Told()
    announcer = Announcer(store.findings, FindingsConfig(), sink, clock)
    announcer.announce([replace(unnamed(), found_at=clock.now())])
    for _ in range(3):
        clock.advance(NAMED_WITHIN / 2.5)
        announcer.count_overdue()
        announcer.count_overdue()
    assert [(each.kind, each.agent) for each in sink.counted] == [("identical_call", None)]
    assert complete(store, loop_found()).counted == []


def test_what_counts_waits_in_the_outbox_once(telling: Store) -> None:
    early, *late = [loop_found(span_id=f"{number:016x}", found_at=number) for number in (1, 5, 7)]
    telling.findings.keep([late[1], early, late[0], unnamed(kind="cycle", found_at=8)])
    assert [each.at for each in telling.outbox.oldest(10)] == [1, 5, 7]
    telling.outbox.remove(telling.outbox.oldest(2))
    # It counts without a name too, and what is found again is no other loop.
    telling.findings.overdue(9)
    telling.findings.keep(late)
    assert [each.at for each in telling.outbox.oldest(10)] == [7, 8]
    complete(telling, early, *late, finding(kind="tool_failed"), finding(kind="no_answer", severity=Severity.ERROR))
    kinds = [each.attributes["agenteval.finding.kind"] for each in telling.outbox.oldest(10)]
    assert sorted(kinds) == ["cycle", "identical_call", "no_answer"], "what has arrived stays away; warnings have none"


def test_what_is_shown_is_as_it_was_found_and_the_worst_where_there_is_much(store: Store) -> None:
    many = [finding(kind="value_not_said", severity=Severity.INFO, span_id=f"{n:016x}") for n in range(MAX_SHOWN + 10)]
    loop = loop_found(found_at=2_000)
    complete(store, *many, loop)
    with store.snapshot() as records:
        document = found_document(records.found_in_traces([TRACE_ID])[TRACE_ID])
    assert document["findings_count"] == {"error": 1, "warning": 0, "info": MAX_SHOWN + 10}
    assert (document["worst"], len(document["findings"])) == ("error", MAX_SHOWN)
    assert document["findings"][-1] == {
        "kind": "identical_call",
        "severity": "error",
        "turn": None,
        "span_id": SPAN_ID,
        "agent": "planner",
        "tool": "search",
        "reason": loop.reason,
        "metadata": {"tool": "search", "repetitions": 3},
        "found_at": "1970-01-01T00:00:00.000002Z",
        "mode": "alarm",
        "trace_id": TRACE_ID,
    }


def test_evidence_that_no_utf_8_holds_is_kept_all_the_same(store: Store) -> None:
    complete(store, finding(kind="tool_failed", reason="\ud800 said", span_id=None))
    assert [(each["reason"], each["span_id"]) for each in shown(store)] == [("? said", None)]


@pytest.mark.sqlite
def test_the_findings_of_a_session_are_found_by_an_index(store: Store) -> None:
    with store.snapshot() as records:
        plan = plan_of(store.outside.engine, lambda: records.found_in_sessions({"s-1": ()}))
    assert plan
    assert all("findings_by_session" in step for step in plan if "findings" in step), plan


def test_threads_that_find_the_same_tell_it_once(store: Store) -> None:
    sink = Told()
    announcer = Announcer(store.findings, FindingsConfig(), sink, ManualClock())
    found = [loop_found(span_id=f"{number:016x}") for number in range(20)]
    threads = [threading.Thread(target=lambda: [announcer.announce([each]) for each in found]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.span_id or "" for each in sink.told) == [each.span_id for each in found]


@pytest.mark.sqlite
def test_nobody_is_told_of_what_could_not_be_kept(store: Store, tmp_path: Path) -> None:
    sink = Told()
    announcer = Announcer(store.findings, FindingsConfig(), sink, ManualClock())
    with closing(sqlite3.connect(tmp_path / "agenteval.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE findings RENAME TO away")
        with pytest.raises(Unavailable):
            announcer.announce([loop_found()])
        assert sink.told == []
        connection.execute("ALTER TABLE away RENAME TO findings")
    announcer.announce([loop_found()])
    assert sink.told == [loop_found()]
