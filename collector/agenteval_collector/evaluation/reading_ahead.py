"""Traces that worker processes prepare before their turn comes."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from agenteval_collector.evaluation.preparing import Prepared
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.quarantine import InputKind
from agenteval_collector.runtime.work import SCORING, WorkAccount
from agenteval_collector.runtime.workers import DONE_WITHIN, WorkerDied, WorkerGone, Workers
from agenteval_collector.stores.quarantine import FATAL, Quarantine

TOGETHER: Final = 16
"""Traces of one job at most."""
SMALL: Final = 256 * 1024
"""Bytes of traces of one job, after which it takes no further one. A larger trace is a job of its own, for which memory
is reserved."""
BATCHES: Final = 3
"""Batches of traces that are in hand at once: one that is committed, and those that are prepared meanwhile."""
READY_WITHIN: Final = 20.0
"""Seconds that a trace which may have killed a worker waits for the next one."""

TRIES: Final = 4
"""Tries to have such a trace prepared. After that the evaluation reads it, with a note that it is in hand."""

_Key = tuple[str, int]


class _Begun(NamedTuple):
    traces: Sequence[AssembledTrace]
    done: Future[bytes]


class ReadingAhead:
    """Has `workers` prepare traces. Owned by the thread of the evaluation.

    `session_of` returns the session that a trace names: one worker has all traces of a session, as it remembers what
    was said before. What is in `quarantine` is not read. Memory for large traces is reserved from `work`.
    """

    def __init__(
        self, workers: Workers, session_of: Callable[[AssembledTrace], str], quarantine: Quarantine, work: WorkAccount
    ) -> None:
        self._workers = workers
        self._session_of = session_of
        self._quarantine = quarantine
        self._work = work
        self._begun: dict[_Key, _Begun] = {}
        self._prepared: dict[_Key, Prepared] = {}

    @property
    def batches(self) -> int:
        """How many batches to take at once."""
        return BATCHES if self._workers.ready else 1

    def start(self) -> None:
        """Start the workers, because work waits for this process."""
        self._workers.start()

    def begin(self, traces: Iterable[AssembledTrace]) -> None:
        """Have traces prepared. Large ones wait for their turn."""
        if not self._workers.ready:
            return
        waiting = [
            trace
            for trace in traces
            if trace.size <= SMALL and not self._quarantine.holds(InputKind.TRACE, trace.trace_id)
        ]
        for place, together in self._jobs(waiting):
            self._submit(place, together)

    def finish(self, traces: Sequence[AssembledTrace]) -> list[AssembledTrace]:
        """Wait until the traces are prepared. What could not be prepared is left to the evaluation.

        Return the traces on which workers died `FATAL` times while they had nothing else in hand.
        """
        if not self._workers.ready and not self._begun:
            return []
        alone: list[AssembledTrace] = []
        for trace in traces:
            begun = self._begun.get(_key(trace))
            if begun is not None:
                alone += self._finish(begun)
            elif trace.size > SMALL and not self._quarantine.holds(InputKind.TRACE, trace.trace_id):
                alone.append(trace)
        return [trace for trace in alone if not self._survives(trace)]

    def prepared(self, trace: AssembledTrace) -> Prepared | None:
        """Return the trace as prepared; None if it was not."""
        return self._prepared.get(_key(trace))

    def forget(self) -> None:
        """Forget what is prepared: the batch is committed."""
        self._prepared.clear()

    def _jobs(self, traces: Iterable[AssembledTrace]) -> Iterator[tuple[int, list[AssembledTrace]]]:
        """Yield the traces of one process together, as many as make a job."""
        of_place: dict[int, tuple[list[AssembledTrace], int]] = {}
        for trace in traces:
            place = self._workers.place(trace.session or self._session_of(trace))
            together, size = of_place.pop(place, ([], 0))
            together.append(trace)
            size += trace.size
            if len(together) < TOGETHER and size < SMALL:
                of_place[place] = together, size
            else:
                yield place, together
        for place, (together, _) in of_place.items():
            yield place, together

    def _submit(self, place: int, traces: Sequence[AssembledTrace]) -> None:
        begun = _Begun(traces, self._workers.submit(place, pickle.dumps(traces, pickle.HIGHEST_PROTOCOL)))
        self._begun.update((_key(trace), begun) for trace in traces)

    def _finish(self, begun: _Begun) -> Sequence[AssembledTrace]:
        """Take the results of a job. Return the traces of which one may have killed the worker."""
        for trace in begun.traces:
            self._begun.pop(_key(trace), None)
        try:
            self._take(begun.traces, begun.done.result(2 * DONE_WITHIN))
        except WorkerDied:
            return begun.traces
        except (WorkerGone, TimeoutError):
            pass
        return ()

    def _take(self, traces: Sequence[AssembledTrace], body: bytes) -> None:
        results: Sequence[bytes | None] = pickle.loads(body)
        for trace, result in zip(traces, results, strict=True):
            if result is not None:
                self._prepared[_key(trace)] = pickle.loads(result)

    def _survives(self, trace: AssembledTrace) -> bool:
        """Have a trace prepared by itself. Return False if workers die while they have it in hand."""
        place, body = self._workers.place(trace.session or self._session_of(trace)), pickle.dumps([trace])
        deaths = 0
        for _ in range(TRIES):
            try:
                with self._work.reserve(SCORING * trace.size):
                    # By any process that takes jobs, so that all others need not wait for a new one.
                    job = self._workers.submit(self._workers.ready_place(place), body, READY_WITHIN)
                    self._take([trace], job.result(2 * DONE_WITHIN))
                return True
            except WorkerDied:
                deaths += 1
                if deaths == FATAL:
                    return False
            except (WorkerGone, TimeoutError):
                continue  # It died on the work of another tenant, or none became ready.
        return True


def _key(trace: AssembledTrace) -> _Key:
    return trace.trace_id, trace.revision
