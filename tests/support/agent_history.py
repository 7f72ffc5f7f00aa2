"""Traces of agents over weeks, as the evaluation commits them to a store."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenteval_collector.app.offline import NothingRuns
from agenteval_collector.app.scoring import reliability_reports
from agenteval_collector.config.sources import load
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.labels import Label
from agenteval_collector.model.news import no_events
from agenteval_collector.model.runs import RunReport, RunTrace
from agenteval_collector.model.sessions import SessionState, SessionUpdate
from agenteval_collector.model.trace_view import view_of
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.stores.store import Store

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import RunIdentity, Trace
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Score
from tests.support.clock import ManualClock
from tests.support.evaluations import evaluation
from tests.support.findings import finding
from tests.support.no_spans import NO_SPANS

HOUR = 3600 * 1_000_000_000
NOW = 500_000 * HOUR + HOUR // 2
"""In the middle of an hour."""


def trace_of(
    number: int,
    *,
    session: str = "s-0",
    agent: str | None = "planner",
    version: str | None = "1.2.0",
    at: int = NOW,
    revision: int = 1,
    found: Sequence[Finding] = (),
    usd: float | None = 0.5,
    seconds: float | None = 2.0,
) -> ScoredTrace:
    """A scored trace."""
    trace_id = f"{number:032x}"
    return ScoredTrace(
        view=view_of(Trace(trace_id=trace_id, started_at=at), session_id=session, revision=revision, complete=True),
        offsets=(),
        scored_at=at,
        findings=found,
        agent=agent,
        service="shop",
        service_version=version,
        effort=Effort(steps=1, tokens=1, seconds=seconds, usd=usd),
    )


def error_in(number: int, **changes: Any) -> Finding:
    """A finding of severity error in a trace."""
    told = {"kind": "turn_failed", "severity": Severity.ERROR, "trace_id": f"{number:032x}", **changes}
    return finding(**told)


def judged(number: int, value: float, *, name: str = "task_completion", **changes: Any) -> Evaluation:
    """What the judge says of a trace that was drawn at random."""
    trace_id = f"{number:032x}"
    told = {"part": JudgedPart.RANDOM, "method": Method.LLM, "subject_id": trace_id, "trace_id": trace_id, **changes}
    return evaluation(name=name, outcome=Score(value=value, reason="as it is", coverage=1.0), **told)


def session_of(session_id: str, agent: str = "planner", *, at: int = NOW) -> SessionUpdate:
    """A session that was seen at that time."""
    record = SessionState(
        session_id=session_id,
        user_id=None,
        agent=agent,
        service="shop",
        services=("shop",),
        started_at=at,
        last_seen_at=at,
        trace_count=1,
    )
    return SessionUpdate(state=record, evaluations=())


PASSING = {"1.3.0": 0.9, "1.4.0": 0.85, "1.5.0": 0.6}
"""The rates at which the versions of the sample agents pass."""
AGENTS = ("travel_agent", "support_agent", "billing_agent")
EVALUATORS = ("task_completion", "tool_correctness")


@contextmanager
def served_history(folder: Path, *, sessions: int = 400, odd: Sequence[str] = ()) -> Iterator[Queries]:
    """Queries on a store with a week of sample agents: the newest version is worse. For each text in `odd` there is one
    more agent, whose versions, sessions, runs and evaluator are called so too."""
    store = Store(folder / "agenteval.db", ManualClock(NOW), events_of=no_events)
    try:
        for first in range(0, sessions, 50):
            commit = Commit()
            for number in range(first, min(first + 50, sessions)):
                _add_session(commit, number, sessions)
            store.commit(commit)
            store.label(*_labels(commit.evaluations))
        store.commit(_runs(store))
        for text in odd:
            store.commit(_odd(text, 90_000 + 10 * odd.index(text)))
        clock = ManualClock(NOW)
        reliability = reliability_reports(load(environ={}, flags={}), store, clock)
        yield Queries(
            store,
            clock,
            idle=900.0,
            reliability=reliability,
            running=NothingRuns(),
            judge=NothingRuns(),
            drifts=tuple,
            spans=NO_SPANS,
        )
    finally:
        store.shutdown()


def _add_session(commit: Commit, number: int, sessions: int) -> None:
    chance = random.Random(number)
    # More of them lately: a day has enough for an interval.
    age = 7 * 24 * (number / sessions) ** 2
    agent = AGENTS[min(2, number % 5)]
    version = "1.3.0" if age > 96 else "1.4.0" if age > 20 else "1.5.0"
    passing = PASSING[version] if agent == AGENTS[0] else 0.88
    at, session = NOW - round(age * HOUR), f"{agent.partition('_')[0]}-{1000 + number}"
    commit.add(session_of(session, agent, at=at))
    for place in range(chance.randrange(1, 6)):
        trace = 1 + number * 10 + place
        fails = chance.random() > passing
        found = []
        if fails and chance.random() < 0.5:
            told = {"agent": agent, "service_version": version, "session_id": session, "found_at": at}
            metadata = {"shape": chance.choice(("timeout", "no flight", "HTTP 500"))}
            found = [error_in(trace, kind="tool_failed", tool="search", metadata=metadata, **told)]
        seconds = chance.lognormvariate(1.0 if version == "1.5.0" else 0.6, 0.7)
        usd = 0.004 * chance.lognormvariate(0, 0.5) * (2 if version == "1.5.0" else 1)
        commit.traces.append(
            trace_of(trace, session=session, agent=agent, version=version, at=at, found=found, usd=usd, seconds=seconds)
        )
        about = {"agent": agent, "service_version": version, "session_id": session, "evaluated_at": at}
        for name in EVALUATORS if agent != AGENTS[2] else ():
            bad = fails and (name == EVALUATORS[0] or chance.random() < 0.4)
            commit.evaluations.append(judged(trace, 0.2 if bad else 0.9, name=name, **about))


def _labels(evaluations: Sequence[Evaluation]) -> Iterator[Label]:
    """Yield what people say of two thirds of one agent's tasks: mostly what the judge says."""
    for each in evaluations:
        chance = random.Random(each.subject_id)
        if (each.agent, each.name) == (AGENTS[0], EVALUATORS[0]) and chance.random() < 0.66:
            agrees = chance.random() < 0.92
            value = 1.0 if bool(each.success) is agrees else 0.0
            yield Label(trace_id=each.trace_id, name=each.name, value=value, author="ann", drawn=True)


def _runs(store: Store) -> Commit:
    """Five runs of twelve tasks by each of two versions: the newer one succeeds less often."""
    commit = Commit()
    for place in range(120):
        chance = random.Random(place)
        version, task, run = ("1.4.0", "1.5.0")[place % 2], f"task-{place // 10}", str(place % 10)
        identity = RunIdentity(task_id=task, run_id=run)
        success = chance.random() < (0.95 if version == "1.4.0" else 0.45)
        store.report_run(RunReport(task_id=task, run_id=run, success=success, confidence=0.8))
        age = chance.uniform(1, 19) if version == "1.5.0" else chance.uniform(30, 90)
        at, session = NOW - round(age * HOUR), f"run-{place}"
        told = {"agent": AGENTS[0], "service": "shop", "service_version": version, "session_id": session}
        run_trace = RunTrace(
            trace_id=f"{50_000 + place:032x}", run=identity, started_at=at, success=success, confidence=0.8,
            actions=("search", "book") if chance.random() < 0.7 else ("search",), seconds=1.0 + chance.random(),
            model_calls=2, model_seconds=0.5, errors=0, usd=0.01, violations=None, **told,
        )  # fmt: skip
        trace = trace_of(50_000 + place, session=session, agent=AGENTS[0], version=version, at=at, usd=0.006)
        commit.traces.append(replace(trace, run=identity, run_trace=run_trace))
        commit.add(session_of(session, AGENTS[0], at=at))
    return commit


def _odd(text: str, first: int) -> Commit:
    commit = Commit()
    for number in range(first, first + 3):
        session, version = f"{text}{number}", text if number > first else f"{text}0"
        told = {"agent": text, "service": "shop", "service_version": version, "session_id": session}
        found = [error_in(number, tool=text, reason=text, metadata={"shape": text}, found_at=NOW, **told)]
        identity = RunIdentity(task_id=text, run_id=f"{text}{number}")
        run_trace = RunTrace(
            trace_id=f"{number:032x}", run=identity, started_at=NOW, success=True, confidence=0.8, actions=(text,),
            seconds=1.0, model_calls=1, model_seconds=0.5, errors=0, usd=0.01, violations=None, **told,
        )  # fmt: skip
        trace = trace_of(number, session=session, agent=text, version=version, found=found)
        commit.traces.append(replace(trace, run=identity, run_trace=run_trace))
        commit.evaluations.append(judged(number, 0.9, name=text, evaluated_at=NOW, **told))
        commit.add(session_of(session, text))
    return commit
