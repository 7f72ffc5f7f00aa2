"""The questions that the pipeline, the retention and the pages put to a store, each under the name of its purpose."""

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.pass_rates import Rated
from agenteval_collector.model.problem import ProblemFilter
from agenteval_collector.model.session_filter import EVERY_SESSION, Below, Order, SessionFilter
from agenteval_collector.stores.erasing import forget_content
from agenteval_collector.stores.store import Store

from benchmarks.stored import add_session
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import SubjectKind

Questions = Mapping[str, Callable[[], object]]
DAY = 86_400 * 1_000_000_000
BATCH = 64
"""Traces that the retention removes at a time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Ids from the store: some at random from sessions of usual length, the longest sessions, and the oldest traces."""

    traces: list[tuple[str, str, int]]
    longest: list[str]
    problems: list[str]
    versions: list[tuple[str, str]]


def sample(read: Callable[[str], list[Any]]) -> Sample:
    """Draw ids from the store. `read` runs SQL."""
    some = "SELECT trace_id, session_id, started_at FROM traces TABLESAMPLE SYSTEM (1) LIMIT 2000"
    return Sample(
        traces=[tuple(row) for row in read(some)],
        longest=[row[0] for row in read("SELECT session_id FROM sessions WHERE trace_count >= 500 LIMIT 50")],
        problems=[row[0] for row in read("SELECT problem_id FROM problems ORDER BY traces DESC LIMIT 50")],
        versions=[
            tuple(row) for row in read("SELECT DISTINCT agent, version FROM agent_times ORDER BY 1, 2 LIMIT 100")
        ],
    )


def of_pipeline(store: Store, drawn: Sample, now: int) -> Questions:
    """Return the questions of the pipeline and the retention."""
    chance = random.Random(0)
    new = itertools.count(10_000_000)

    def one() -> tuple[str, str, int]:
        return chance.choice(drawn.traces)

    def commit(traces: int) -> Callable[[], object]:
        def run() -> object:
            made = Commit()
            add_session(made, next(new), traces, now)
            return store.commit(made)

        return run

    def place() -> tuple[str, int, str]:
        trace_id, session_id, started_at = one()
        return session_id, started_at, trace_id

    def neighbours() -> object:
        session_id, started_at, trace_id = place()
        return store.neighbours(session_id, (started_at, trace_id), 8, 8)

    def forget() -> object:
        with store._pipeline.writing() as connection:
            return forget_content(connection, now - 20 * DAY, BATCH)

    return {
        "a trace of a new session": commit(1),
        "64 traces of a new session": commit(64),
        "which of 64 traces are known": lambda: store.known_traces([one()[0] for _ in range(64)]),
        "place of a trace": lambda: store.stored_place(one()[0]),
        "a session": lambda: store.session(one()[1]),
        "a session of 1,000 traces": lambda: store.session(chance.choice(drawn.longest)),
        "neighbours of a trace": neighbours,
        "two traces": lambda: store.traces([one()[0], one()[0]]),
        "parts of a session": lambda: store.parts(one()[1]),
        "what was sampled out in a session": lambda: store.sampled_out(one()[1], 10),
        "what waits for the judge": lambda: store.pending_jobs(before=now),
        "sessions without a goal": lambda: store.without_goal([one()[1] for _ in range(64)]),
        "processes in a session": lambda: store.processes_in(one()[1]),
        "turns before a trace": lambda: store.turns.before(*place()),
        "turns of a session of 1,000 traces": lambda: store.turns.of_session(chance.choice(drawn.longest)),
        "conversations that end so": lambda: store.conversations.ending("shop-1", chance.randbytes(32), None),
        "conversations that follow": lambda: store.conversations.following(
            "shop-1", [chance.randbytes(32)], None, since=now - DAY, until=now
        ),
        "sessions over": lambda: store.finalize([one()[1]]),
        "a session ended": lambda: store.end_session(one()[1]),
        "sessions that go on (at a start)": store.live_sessions,
        "efforts of the last 1,000 sessions (at a start)": lambda: store.efforts(1000),
        "scores of the last 1,000 sessions (at a start)": lambda: store.past_sessions(1000),
        "findings told (at a start)": lambda: store.findings.newest(100),
        "findings overdue": lambda: store.findings.overdue(now),
        "money spent": lambda: store.ledger.spent_since(now // (3600 * 1_000_000_000) - 720),
        "candidates for canaries": lambda: store.canaries.candidates(labelled=False, limit=50),
        "labelled candidates for canaries": lambda: store.canaries.candidates(labelled=True, limit=50),
        "content of 64 traces forgotten": forget,
        "64 oldest traces to erase": lambda: store.deletions.oldest_traces(now - 20 * DAY, BATCH),
        "64 traces erased": lambda: store.deletions.erase([one()[0] for _ in range(BATCH)], []),
        "sessions without a trace": lambda: store.deletions.empty_sessions(now - 400 * DAY, BATCH),
        "sessions of a user, to delete": lambda: store.deletions.sessions_of(DeletionFilter(user_id="user-7")),
        "traces before a time, to delete": lambda: store.deletions.traces_of(
            DeletionFilter(before=now - 25 * DAY), [], BATCH
        ),
    }


def of_pages(store: Store, drawn: Sample, now: int) -> Questions:
    """Return the questions of the pages and the API."""
    chance = random.Random(1)

    def look(read: Callable[[Any], object]) -> Callable[[], object]:
        def run() -> object:
            with store.snapshot() as records:
                return read(records)

        return run

    def listed(**wanted: Any) -> Callable[[], object]:
        return look(lambda records: records.sessions(SessionFilter(**wanted), None, 50))

    def of_session(records: Any, session_id: str) -> object:
        members = [trace_id for trace_id, _ in records.members(session_id)][-50:]
        records.traces(members), records.evaluations(SubjectKind.TRACE, members), records.found_in_traces(members)
        records.evaluations(SubjectKind.SESSION, [session_id]), records.scores(session_id, ["task_completion"])
        records.trace_labels(members), records.session_labels(session_id), records.deaths([session_id])
        return records.session(session_id)

    def of_trace(records: Any) -> object:
        trace_id, session_id, _ = chance.choice(drawn.traces)
        (
            records.traces([trace_id]),
            records.evaluations(SubjectKind.TRACE, [trace_id]),
            records.found_in_traces([trace_id]),
        )
        return (
            records.exchanges(SubjectKind.TRACE, trace_id),
            records.session(session_id),
            records.first_finding(trace_id),
        )

    def flags(records: Any) -> object:
        shown = [each.session_id for each in records.sessions(EVERY_SESSION, None, 50).items]
        records.flagged_traces(shown), records.judged_failures(shown), records.deaths(shown)
        return records.found_in_sessions(dict.fromkeys(shown, ()))

    def trials() -> object:
        with store.versions.snapshot() as versions:
            seen = versions.versions()
            return versions.trials(seen[-1], until=None, most=500)

    def runs(read: Callable[[Any], object]) -> Callable[[], object]:
        def run() -> object:
            with store.runs.snapshot() as found:
                return read(found)

        return run

    hour = now // (3600 * 1_000_000_000)
    rated = Rated("agent-0", "shop", "1.9", "task_completion")
    many = AgentKey("agent-0", "shop")
    newest, problem = {"limit": 50, "cursor": None, "now": now}, ProblemFilter(agent="agent-3")
    return {
        "sessions, newest": listed(),
        "sessions, attention": listed(order=Order.ATTENTION),
        "sessions of an agent of many": listed(agent="agent-0"),
        "sessions of an agent of few": listed(agent="agent-49"),
        "sessions of an agent, attention": listed(agent="agent-49", order=Order.ATTENTION),
        "sessions of a user": listed(user="user-17"),
        "sessions of a user, attention": listed(user="user-17", order=Order.ATTENTION),
        "sessions of nobody": listed(user="nobody"),
        "sessions of a service": listed(service="shop"),
        "sessions of the first version": listed(version="1.0"),
        "sessions of a version that nobody has": listed(version="9"),
        "sessions with a kind of finding": listed(finding="no_answer"),
        "sessions with a kind that nobody has": listed(finding="turn_failed"),
        "sessions with errors, attention": listed(severity=Severity.ERROR, order=Order.ATTENTION),
        "sessions with a score below": listed(below=Below("task_completion", 0.3)),
        "sessions with none below": listed(below=Below("task_completion", 0.001)),
        "sessions before a time": listed(until=now - 25 * DAY),
        "sessions, text that all said": listed(text="flight to paris"),
        "sessions, text that one said": listed(text="number 17001"),
        "sessions, text that nobody said": listed(text="nobody said this"),
        "what is shown of 50 sessions": look(flags),
        "page of a session": look(lambda records: of_session(records, chance.choice(drawn.traces)[1])),
        "page of a session of 1,000 traces": look(lambda records: of_session(records, chance.choice(drawn.longest))),
        "page of a trace": look(of_trace),
        "newest traces": look(lambda records: records.newest_traces(50)),
        "agents": look(lambda records: records.agents(None, 50)),
        "an agent": look(lambda records: records.agent("agent-3")),
        "an agent's ends of sessions": look(lambda records: records.session_ends("agent-3")),
        "an agent of many, 7 days": look(lambda records: records.agent_history(many, hour - 168, 6)),
        "an agent of many, 30 days": look(lambda records: records.agent_history(many, hour - 720, 24)),
        "problems": look(lambda records: records.problems(ProblemFilter(), **newest)),
        "problems of an agent": look(lambda records: records.problems(problem, **newest)),
        "a problem": look(lambda records: records.problem(chance.choice(drawn.problems), now)),
        "number of problems": look(lambda records: records.problem_counts(now)),
        "what has a rate of passing": look(lambda records: records.rated()),
        "scores of a rate": look(lambda records: (records.judged(rated), records.unscored(rated))),
        "labels beside scores": look(lambda records: records.labelled(None)),
        "versions, and trials of one": trials,
        "runs: versions": runs(lambda found: found.versions()),
        "runs: newest of a version": runs(lambda found: next(iter(found.newest(drawn.versions[0])), None)),
        "what the judge failed at": lambda: store.judged.failed_since(now - DAY, 100),
    }
