"""Worker processes: functions from bytes to bytes, on the other cores.

Each process has a thread here that hands it jobs and takes its results. Jobs of one key go to one process, in order. A
process that dies is replaced. The job that it had in hand fails with `WorkerDied`; others fail with `WorkerGone`, as
do those that raise an error, and jobs for a process that is not ready. Whoever gave the job does it again.
"""

import atexit
import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Final

from agenteval_collector.runtime.component import SHORTEST_WAIT, Component
from agenteval_collector.runtime.inbox import Inbox
from agenteval_collector.runtime.machine import GARBAGE_THRESHOLDS, limit_growth, resident_bytes

logger = logging.getLogger(__name__)

AT_ONCE: Final = 2
"""Jobs that a process has at once: one in hand, and the next, so that it need not wait for it."""
WAITING: Final = 64
"""Jobs that wait for a process at most."""
READY_WITHIN: Final = 120.0
"""Seconds that a process may take to start."""
DONE_WITHIN: Final = 60.0
"""Seconds that a process may take for a job. After that it is taken for dead."""
ENDED_WITHIN: Final = 2.0
"""Seconds that all processes may take to end."""
PAUSE: Final = 10.0
"""Seconds between two attempts to start a process that does not start."""
LOOK_AGAIN: Final = 1.0
"""Seconds after which an idle process is looked at."""
_SIZE: Final = 8
"""Bytes of a reply that tell the resident memory of the process."""

Begin = Callable[[], Callable[[bytes], bytes]]
"""Makes, in a worker process, the function that does jobs. It can be pickled."""


class WorkerGone(Exception):
    """No process does the job. It kills nobody, so it can be done here."""


class WorkerDied(Exception):
    """The process died while it had the job in hand."""


@dataclass(frozen=True, slots=True)
class _Job:
    body: bytes
    done: Future[bytes] = field(default_factory=Future)


class Workers:
    """Up to `count` processes, each of at most `max_bytes` of memory; none runs before `start`. Thread-safe.

    A process that takes more is replaced between two jobs. One that takes `beyond` more in a job ends.
    """

    def __init__(self, begin: Begin, count: int, max_bytes: int, beyond: int) -> None:
        self._workers = [_Worker(number, begin, max_bytes, beyond) for number in range(count)]
        self._started = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the processes. Returns at once; safe twice, and after the shutdown."""
        with self._lock:
            if not self._started:
                self._started = True
                # Before `multiprocessing` waits for its processes, which heed no signal.
                atexit.register(self.shutdown)
                logger.info("%d worker processes start", len(self._workers))
                for worker in self._workers:
                    worker.start()

    @property
    def ready(self) -> int:
        """The number of processes that take jobs."""
        return sum(worker.is_ready for worker in self._workers)

    @property
    def replaced(self) -> int:
        """The number of processes that were replaced: they died, took too long, or took too much memory."""
        return sum(worker.replaced for worker in self._workers)

    @property
    def resident(self) -> int:
        """Bytes of resident memory of all processes, as each told last."""
        return sum(worker.resident for worker in self._workers)

    @property
    def process_ids(self) -> Sequence[int]:
        """The processes that run."""
        return [worker.process_id for worker in self._workers if worker.process_id is not None]

    def place(self, key: str) -> int:
        """Return the number of the process for jobs of this key."""
        return zlib.crc32(key.encode(errors="surrogatepass")) % len(self._workers)

    def ready_place(self, place: int) -> int:
        """Return the number of a process that takes jobs, `place` itself if it does or if none does."""
        if self._workers[place].is_ready:
            return place
        return next((number for number, worker in enumerate(self._workers) if worker.is_ready), place)

    def submit(self, place: int, body: bytes, patience: float = 0.0) -> Future[bytes]:
        """Give a job to the process of this number, which may become ready within `patience` seconds."""
        return self._workers[place].submit(body, patience)

    def shutdown(self) -> None:
        """End all processes. Safe before the start and twice."""
        with self._lock:
            self._started = True
        for worker in self._workers:
            worker.end()
        deadline = time.monotonic() + ENDED_WITHIN
        for worker in self._workers:
            worker.shutdown(max(0.0, deadline - time.monotonic()))
        atexit.unregister(self.shutdown)


class _Worker(Component):
    """The thread of one process."""

    def __init__(self, number: int, begin: Begin, max_bytes: int, beyond: int) -> None:
        self._inbox: Inbox[_Job] = Inbox(WAITING)
        super().__init__(f"worker {number}", self._inbox)
        self._begin = begin
        self._max_bytes = max_bytes
        self._beyond = beyond
        # Guards `is_ready` together with the inbox: a job that is put in while the process is ready is answered.
        self._changed = threading.Condition()
        self._process: _WorkerProcess | None = None
        self.is_ready = False
        self.replaced = 0
        self.resident = 0

    @property
    def process_id(self) -> int | None:
        return None if (process := self._process) is None else process.process_id

    def submit(self, body: bytes, patience: float) -> Future[bytes]:
        job = _Job(body)
        with self._changed:
            self._changed.wait_for(lambda: self.is_ready or self._inbox.closed, patience)
            if not self.is_ready or not self._inbox.put(job):
                job.done.set_exception(WorkerGone())
        return job.done

    def end(self) -> None:
        """Give up what is under way."""
        self._inbox.close()
        if (process := self._process) is not None:
            process.kill()

    def run(self) -> None:
        while not self._inbox.closed:
            try:
                self._process = process = _WorkerProcess(self._begin, self._max_bytes + self._beyond)
            except OSError as error:
                logger.error("%s does not start: %s", self.name, error)
                self._pause()
                continue
            try:
                # `end` may have come before there was a process to kill.
                if not self._inbox.closed and self._started(process):
                    self._do_jobs(process)
            finally:
                process.kill()
                self._process, self.resident = None, 0

    def _started(self, process: "_WorkerProcess") -> bool:
        try:
            self.resident, _ = process.receive(READY_WITHIN)
        except (OSError, EOFError) as error:
            if not self._inbox.closed:
                logger.error("%s does not start: %s", self.name, error or "its process ended")
                self._pause()
            return False
        with self._changed:
            self.is_ready = not self._inbox.closed
            self._changed.notify_all()
        return True

    def _do_jobs(self, process: "_WorkerProcess") -> None:
        """Hand jobs on until the process dies or has grown, or the inbox is closed."""
        in_hand: deque[_Job] = deque()
        died: Exception = WorkerGone()
        try:
            while in_hand or not self._inbox.closed:
                while len(in_hand) < AT_ONCE and self.resident <= self._max_bytes:
                    taken = self._inbox.take(1, 0.0 if in_hand else LOOK_AGAIN)
                    if not taken:
                        break
                    in_hand += taken
                    process.send(taken[0].body)
                if in_hand:
                    self.resident, result = process.receive(DONE_WITHIN)
                    _answer(in_hand.popleft(), result)
                elif self.resident > self._max_bytes:
                    logger.info("%s takes %d MiB, and is replaced", self.name, self.resident >> 20)
                    self.replaced += 1
                    return
                else:
                    process.check()
        except (OSError, EOFError) as error:
            if not self._inbox.closed:
                died = WorkerDied()
                self.replaced += 1
                logger.warning("%s has died, and is replaced: %s", self.name, error or "its process ended")
        finally:
            with self._changed:
                self.is_ready = False
                left = [*in_hand, *self._inbox.take(WAITING, 0.0)]
            for job in left:
                job.done.set_exception(died)
                died = WorkerGone()

    def _pause(self) -> None:
        until = time.monotonic() + PAUSE
        while not self._inbox.closed and time.monotonic() < until:
            self._giving_up.wait(SHORTEST_WAIT)


def _answer(job: _Job, result: bytes | None) -> None:
    if result is None:
        job.done.set_exception(WorkerGone())
    else:
        job.done.set_result(result)


class _WorkerProcess:
    """A process that runs `_serve`, and our end of the pipe to it. The methods raise OSError or EOFError if it died."""

    def __init__(self, begin: Begin, max_bytes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, begin, max_bytes), daemon=True)
        try:
            self._process.start()
        finally:
            # Only the process has this end now: when it dies, ours is told.
            theirs.close()
        self.process_id = self._process.pid

    def send(self, body: bytes) -> None:
        self._pipe.send_bytes(body)

    def receive(self, within: float) -> tuple[int, bytes | None]:
        """Return the memory of the process, and the next result: None if the job raised an error.

        Raises TimeoutError, which is an OSError.
        """
        if not self._pipe.poll(within):
            raise TimeoutError(f"no result within {within:g} s")
        reply = self._pipe.recv_bytes()
        return int.from_bytes(reply[1 : 1 + _SIZE], "big"), reply[1 + _SIZE :] if reply[0] else None

    def check(self) -> None:
        """Raise EOFError if the process has died."""
        if not self._process.is_alive():
            raise EOFError

    def kill(self) -> None:
        """End the process. Safe twice, and from any thread."""
        with suppress(OSError, ValueError):
            self._process.kill()
            self._process.join(1.0)


def _serve(pipe: Connection, begin: Begin, max_bytes: int) -> None:
    """Do the jobs that come by the pipe, in a worker process, until the other end is closed."""
    # Signals to the group are for the collector, which ends this process when it is done with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    do = begin()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    limit_growth(max_bytes)
    jobs: SimpleQueue[bytes | None] = SimpleQueue()
    # Apart, so that the collector never waits with a job while this process waits with a result.
    threading.Thread(target=_take_in, args=(pipe, jobs), daemon=True).start()
    with suppress(OSError):
        pipe.send_bytes(_reply(b""))
        while (job := jobs.get()) is not None:
            result: bytes | None = None
            try:
                result = do(job)
            except MemoryError:
                os._exit(1)
            except Exception:
                logger.exception("a job of %d bytes has failed", len(job))
            pipe.send_bytes(_reply(result))


def _take_in(pipe: Connection, jobs: "SimpleQueue[bytes | None]") -> None:
    with suppress(OSError, EOFError):
        while True:
            jobs.put(pipe.recv_bytes())
    jobs.put(None)


def _reply(result: bytes | None) -> bytes:
    return bytes([result is not None]) + resident_bytes().to_bytes(_SIZE, "big") + (result or b"")
