"""The evaluation on a thread of its own, between assembly and everything that leaves."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agenteval_collector.errors import RetryableError
from agenteval_collector.evaluation.evaluation import TraceEvaluation
from agenteval_collector.inbox import Inbox
from agenteval_collector.pipeline import AssembledTrace, CommittedEvaluation, EvaluationSink
from agenteval_collector.records import Commit, SessionUpdate
from otel_agenteval.outcome import Evaluation

logger = logging.getLogger(__name__)
T = TypeVar("T")

CAPACITY = 1024
"""Complete traces that may wait; then assembly waits, and then senders are told to come back later."""
BATCH = 64
"""Traces in one commit at most."""
HOUSEKEEPING = 1.0
"""Seconds that the stage sleeps at the longest."""


class EvaluationStore(Protocol):
    """What the stage knows of the store."""

    def commit(self, commit: Commit) -> list[CommittedEvaluation]: ...

    def finalize(self, session_ids: Sequence[str]) -> list[str]: ...

    def session_evaluations(self, session_id: str) -> list[Evaluation]: ...

    def live_sessions(self) -> list[str]: ...


class SessionLifetimes(Protocol):
    """What the stage knows of sessions that come and go."""

    def reload(self, session_id: str) -> SessionUpdate | None: ...

    def idle(self) -> list[str]: ...

    def end(self, session_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Ended:
    """A session was reported ended."""

    session_id: str


class EvaluationStage:
    """Commits before it tells anybody: the sink gets what the store holds, `scored` what needs no replay."""

    def __init__(
        self,
        evaluation: TraceEvaluation,
        sessions: SessionLifetimes,
        store: EvaluationStore,
        sink: EvaluationSink,
        scored: Callable[[str, int], None],
    ) -> None:
        self._evaluation = evaluation
        self._sessions = sessions
        self._store = store
        self._sink = sink
        self._scored = scored
        self._inbox: Inbox[AssembledTrace | _Ended] = Inbox(CAPACITY)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agenteval-evaluation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def shutdown(self, timeout: float = 10.0) -> None:
        """Evaluate what was handed over, then stop. Safe before start and twice."""
        self._inbox.close()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._stopping.set()

    def put(self, trace: AssembledTrace, timeout: float) -> bool:
        """Hand over a complete trace; False where there was no room within `timeout` seconds."""
        return self._inbox.put(trace, timeout=timeout)

    def end_session(self, session_id: str) -> None:
        """The session was marked as ended: its scores are final."""
        self._inbox.put_regardless(_Ended(session_id), 0)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Complete traces that are not evaluated yet."""
        return len(self._inbox)

    def process(self, traces: Sequence[AssembledTrace]) -> None:
        """Evaluate and commit; what the thread does with each batch."""
        commit = Commit()
        left = {self._insist(lambda: self._evaluation.evaluate(trace, commit)) for trace in traces} - {None}  # noqa: B023
        self._emit(self._committed(commit))
        for trace in traces:
            self._scored(trace.trace_id, trace.revision)
        if left:
            self._recount([session_id for session_id in left if session_id is not None])

    def finalize(self, session_ids: Sequence[str]) -> None:
        """The sessions are idle or ended: their scores count, if they have not counted before."""
        final: list[CommittedEvaluation] = []
        for session_id in self._insist(lambda: self._store.finalize(session_ids)):
            final += [
                CommittedEvaluation(evaluation=each, first=False, final=True)
                for each in self._insist(lambda: self._store.session_evaluations(session_id))  # noqa: B023
            ]
        self._emit(final)

    def _run(self) -> None:
        for session_id in self._insist(self._store.live_sessions):
            self._insist(lambda: self._sessions.reload(session_id))  # noqa: B023
        while True:
            items = self._inbox.take(BATCH, HOUSEKEEPING)
            traces = [item for item in items if isinstance(item, AssembledTrace)]
            if traces:
                self.process(traces)
            ended = [item.session_id for item in items if isinstance(item, _Ended)]
            for session_id in ended:
                self._sessions.end(session_id)
            over = [*ended, *self._sessions.idle()]
            if over:
                self.finalize(over)
            if self._inbox.closed and not items:
                return

    def _recount(self, session_ids: Sequence[str]) -> None:
        """A late span has moved a trace to another session: score the one it was in without it."""
        commit = Commit()
        for session_id in session_ids:
            update = self._insist(lambda: self._sessions.reload(session_id))  # noqa: B023
            if update is None:
                commit.emptied.add(session_id)
            else:
                commit.sessions[session_id] = update
        self._emit(self._committed(commit))

    def _committed(self, commit: Commit) -> list[CommittedEvaluation]:
        return self._insist(lambda: self._store.commit(commit))

    def _emit(self, committed: Sequence[CommittedEvaluation]) -> None:
        if committed:
            self._sink.accept(committed)

    def _insist(self, attempt: Callable[[], T]) -> T:
        """Try until the store answers: nothing is lost meanwhile, the log holds it and senders wait."""
        while True:
            try:
                return attempt()
            except RetryableError as error:
                logger.error("evaluation waits: %s", error)
                if self._stopping.wait(error.retry_after):
                    raise
