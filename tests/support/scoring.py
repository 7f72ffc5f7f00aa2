"""Evaluation and sessions on a real store, a batch at a time, without threads or ports."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from agenteval_collector.app.judge import make_judging
from agenteval_collector.app.offline import NothingRuns
from agenteval_collector.app.scoring import EvaluationCore, reliability_reports
from agenteval_collector.app.stages import make_inbox
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import load
from agenteval_collector.evaluation.ports import EverySession, OwnSessions
from agenteval_collector.evaluation.referrals import Referrals
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.drift import Drift
from agenteval_collector.model.judge_jobs import JudgeJob
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.model.news import CommittedEvaluation, News, WorstFinding, no_events
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.stores.store import Store
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.finding import Finding
from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.databases import database_in
from tests.support.no_spans import NO_SPANS

IDLE = 900.0
ROOM = 64
"""Jobs that a judge would have room for."""


class EarlierTraces:
    """The traces that were put, newest revisions."""

    def __init__(self) -> None:
        self._traces: dict[str, AssembledTrace] = {}

    def put(self, traces: Iterable[AssembledTrace]) -> None:
        self._traces |= {trace.trace_id: trace for trace in traces}

    def trace(self, trace_id: str) -> AssembledTrace | None:
        return self._traces.get(trace_id)


class Scoring:
    """`put` evaluates a batch, received `ago` seconds before; `emitted` is what left; `restart` forgets all in memory.

    `judging` says what is referred to a judge, `referred` are the jobs, for
    which there is as much room as `rooms` says, `drifts` is how the judge has drifted;
    `plugged` are evaluators of a user's own, `own_sessions` are those that are evaluated here.
    """

    def __init__(
        self,
        path: Path,
        *,
        judging: Referrals | None = None,
        plugged: Iterable[EntryPoint] = (),
        own_sessions: OwnSessions | None = None,
        **sections: Any,
    ) -> None:
        self._plugged = plugged
        self._own_sessions = own_sessions or EverySession()
        self.earlier = EarlierTraces()
        self.referred: list[JudgeJob] = []
        self.drifts: Sequence[Drift] = ()
        self.clock = ManualClock()
        self.emitted: list[CommittedEvaluation] = []
        self.told: list[Finding] = []
        self.counted: list[Finding] = []
        self.worst: list[tuple[str, WorstFinding]] = []
        self.scored: list[tuple[str, int]] = []
        self.telemetry = Counting()
        self.settings: Settings = load(environ={}, flags=sections)
        self.store = Store(database_in(path), self.clock, events_of=no_events)
        self.judging = judging or make_judging(self.settings, self.store, self.telemetry)
        self.queries = Queries(
            self.store,
            self.clock,
            idle=IDLE,
            reliability=reliability_reports(self.settings, self.store, self.clock),
            running=NothingRuns(),
            judge=NothingRuns(),
            drifts=lambda: self.drifts,
            spans=NO_SPANS,
        )
        self.on_scored: Callable[[str], None] = lambda trace_id: None
        self.rooms: Callable[[], int] = lambda: ROOM
        self.restart()

    def restart(self) -> None:
        self.core = EvaluationCore(
            self.settings,
            self.store,
            self.clock,
            self.telemetry,
            self.judging,
            self.earlier,
            self._own_sessions,
            self._plugged,
        )
        self.inbox = make_inbox(self.settings)
        self.stage = self.core.stage(self.inbox, self, scored=self, emit=self)

    @property
    def room(self) -> int:
        return self.rooms()

    def take_job(self, job: JudgeJob) -> None:
        self.referred.append(job)

    def take_scored(self, trace_id: str, revision: int) -> None:
        self.scored.append((trace_id, revision))
        self.on_scored(trace_id)

    def take_news(self, news: News) -> None:
        self.emitted.extend(news.evaluations)
        self.told += news.to_tell
        self.counted += news.counted
        self.worst += [("trace", each) for each in news.traces] + [("session", each) for each in news.sessions]

    def put(self, *traces: AssembledTrace, ago: float = 0.0) -> None:
        received = [replace(trace, received_at=self.clock.now() - round(ago * 1e9)) for trace in traces]
        self.earlier.put(received)
        self.stage.evaluate_batch(received)

    def trace(self, trace_id: str) -> Any:
        return self.queries.trace(trace_id)

    def session(self, session_id: str) -> Any:
        return self.queries.session(session_id)

    def close(self) -> None:
        self.store.shutdown()


def assembled(*spans: Span, revision: int = 1, offsets: Iterable[int] = (1,), resource: bytes = b"") -> AssembledTrace:
    """A complete trace."""
    origin = Origin(resource or Resource().SerializeToString(), "lib", None)
    return AssembledTrace(
        trace_id=spans[0].trace_id.hex(),
        tenant="default",
        revision=revision,
        spans=[(span.SerializeToString(), origin) for span in spans],
        logs=[],
        offsets=list(offsets),
        received_at=0,
    )
