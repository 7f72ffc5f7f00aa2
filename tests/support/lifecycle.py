"""Every component of the collector between neighbours that keep what it hands on."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

from agenteval_collector.app.pipeline import TenantWatch
from agenteval_collector.app.storage import StoreWatch
from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.ports import ALONE
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.assembly.stage import AssemblyStage, Progress
from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.config.settings import AssemblyConfig, RetentionConfig
from agenteval_collector.emit.meter import Meter
from agenteval_collector.emit.push import EventPush, MetricPush
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.ingest.request_log import RequestLog
from agenteval_collector.live.live_loops import LiveLoops
from agenteval_collector.live.stage import Announcer, LoopStage
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.logged_requests import Arrival, LoggedRequest, Origin, Signal
from agenteval_collector.model.news import News, no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.serve.doors.grpc_connections import GrpcConnections
from agenteval_collector.stores import retention
from agenteval_collector.stores.retention import RetentionStage
from agenteval_collector.stores.retention_ports import DoomedTraces
from agenteval_collector.stores.store import Store
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agenteval.conventions.identity import BY_CONVENTION
from otel_agenteval.detectors.rules import RuleBook
from tests.support.assembling import Counting
from tests.support.judge_stage import World, job
from tests.support.looping import tool_span
from tests.support.otlp import logged, marked, span, traces, turn
from tests.support.outboxes import MemoryOutbox
from tests.support.scoring import Scoring, assembled

ROOM = 1 << 20
FOREIGN = Origin(b"", "lib", None)


class Case(ABC):
    """A stage between neighbours that keep what it hands on; `done` are the numbers of the items that came through."""

    stage: Component
    takes_items = True
    """Whether it works off items, and does not only look at something by the clock."""
    can_refuse = True
    """Whether something that the stage stands on can refuse its work."""
    table = ""
    """The table without which the stage's file refuses."""
    refuses_senders = False
    """Whether an item that the file refuses is refused to its sender, and not tried again."""

    def __init__(self, folder: Path) -> None:
        self.done: list[int] = []
        self.clock = SystemClock()
        self.file = folder / "agenteval.db"

    @abstractmethod
    def give(self, number: int) -> None:
        """Hand over an item. Raises CollectorError where the stage takes no more."""

    @abstractmethod
    def give_defect(self) -> None:
        """Hand over an item at which the stage fails, by no fault of its file."""

    @abstractmethod
    def close(self) -> None:
        """Close what the stage stands on."""

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """The file refuses meanwhile."""
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            connection.execute(f"ALTER TABLE {self.table} RENAME TO away")
            yield
            connection.execute(f"ALTER TABLE away RENAME TO {self.table}")


class LogCase(Case):
    table = "requests"
    refuses_senders = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._requests = RequestFile(self.file)
        self.stage = self._log = RequestLog(self._requests, self.clock, self, tenant="default", max_pending_bytes=ROOM)

    def give(self, number: int) -> None:
        self._log.append(Signal.TRACES, str(number).encode())

    def give_defect(self) -> None:
        self._log.append(Signal.TRACES, "no bytes")  # type: ignore[arg-type]

    def take_request(self, request: LoggedRequest) -> None:
        self.done.append(int(request.body))

    def close(self) -> None:
        self._requests.shutdown()


class AssemblyCase(Case):
    table = "traces"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._store, self._requests = Store(self.file, self.clock, events_of=no_events), RequestFile(folder / "log.db")
        telemetry = Counting()
        assembler = Assembler(
            self.clock, telemetry, Senders(),
            AssemblyConfig(settle=60.0, settle_logs=60.0, max_age=60.0, max_open_bytes=ROOM, max_recent_bytes=0),
            store=self._store, log=self._requests,
        )  # fmt: skip
        self.stage = self._assembly = AssemblyStage(
            assembler, tenant="default", log=self._requests, traces=self, progress=Progress(ALONE),
            store=self._store, open_spans=ALONE, clock=self.clock, telemetry=telemetry,
            memory=MemoryGuard(1 << 40, self.clock), max_pending_bytes=ROOM, backlog=60.0, retention=60.0,
        )  # fmt: skip

    def give(self, number: int) -> None:
        self._assembly.admit()
        request = traces(marked(span(number, 1), 1, "p"), process="p")
        self._assembly.take_request(logged(number, request, received_at=self.clock.now()))

    def give_defect(self) -> None:
        self._assembly.take_request(LoggedRequest(1, "default", Signal.TRACES, 1, b"no protobuf"))

    def take_trace(self, trace: AssembledTrace, timeout: float) -> bool:
        self.done.append(int(trace.trace_id, 16))
        return True

    def close(self) -> None:
        self._store.shutdown()
        self._requests.shutdown()


class EvaluationCase(Case):
    table = "outcomes"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._scoring = Scoring(folder)
        self.stage = self._scoring.stage
        self._scoring.on_scored = lambda trace_id: self.done.append(int(trace_id, 16))

    def give(self, number: int) -> None:
        if not self._scoring.inbox.take_trace(assembled(turn(number, "hi", f"answer {number}")), 0.0):
            raise CollectorError("no room")

    def give_defect(self) -> None:
        nothing = Judgement(job=None, evaluations=(), exchanges=())  # type: ignore[arg-type]
        self._scoring.inbox.take_judgement(nothing)

    def close(self) -> None:
        self._scoring.close()


class LoopsCase(Case):
    table = "findings"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._store = Store(self.file, self.clock, events_of=no_events)
        telemetry = Counting()
        live = LiveLoops(RuleBook(), BY_CONVENTION, self.clock)
        announcer = Announcer(self._store.findings, FindingsConfig(), self, self.clock)
        self.stage = self._loops = LoopStage(live, announcer, telemetry)

    def give(self, number: int) -> None:
        self._loops.take_arrivals([Arrival(tool_span(number, call), FOREIGN) for call in (2, 3, 4)], 100)

    def give_defect(self) -> None:
        self._loops.take_arrivals([Arrival(None, FOREIGN)], 100)  # type: ignore[arg-type]

    def take_news(self, news: News) -> None:
        self.done += [int(finding.trace_id, 16) for finding in news.to_tell]

    def close(self) -> None:
        self._store.shutdown()


class _Delivering(World):
    done: list[int]

    def take_judgement(self, judgement: Judgement) -> None:
        if judgement.job.trace_id.isdigit():
            self.done.append(int(judgement.job.trace_id))


class JudgeCase(Case):
    can_refuse = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        world = _Delivering(step=lambda trace, attempt: ValueError("a defect") if trace == "defect" else None)
        world.done = self.done
        self.stage = self._judge = world.stage()

    def give(self, number: int) -> None:
        self._judge.take_job(job(str(number)))

    def give_defect(self) -> None:
        self._judge.take_job(job("defect"))

    def close(self) -> None: ...


class RetentionCase(Case):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._refuses = False
        self._store = Store(self.file, self.clock, events_of=no_events)
        self.stage = self._retention = RetentionStage(
            self._store.deletions, self, (), RetentionConfig(), self.clock, Counting(),
            new_id=lambda: uuid4().hex, tell=lambda: None, is_on_duty=lambda: True,
        )  # fmt: skip

    def give(self, number: int) -> None:
        self._store.deletions.add(str(number), DeletionFilter(session_id=str(number)), None)
        self._retention.wake()

    def give_defect(self) -> None:
        self._store.deletions.add("defect", DeletionFilter(session_id="defect"), None)
        self._retention.wake()

    def erase(self, deletions: Sequence[DoomedTraces]) -> Sequence[str]:
        if "defect" in [doomed.deletion_id for doomed in deletions]:
            raise ValueError("a defect")
        if self._refuses:
            raise Unavailable("the store refuses")
        return ()

    def erase_from_log(self, deletion_id: str, start: int) -> tuple[int | None, Mapping[str, int]]:
        return None, {}

    def mark_erased(self, deletion_id: str) -> None:
        self.done.append(int(deletion_id))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        # It waits a while for whoever reads, before it says that it is held up.
        with patch.object(retention, "TRIES", 1):
            self._refuses = True
            yield
            self._refuses = False

    def erase_older(self, before: int) -> bool:
        return False

    def trim_log(self, received_before: int) -> bool:
        return False

    def close(self) -> None:
        self._store.shutdown()


class _Watching(Case):
    """Looks at something by the clock."""

    takes_items = can_refuse = False

    def give(self, number: int) -> None: ...

    def give_defect(self) -> None: ...

    def close(self) -> None: ...


class StoreWatchCase(_Watching):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._store = Store(self.file, self.clock, events_of=no_events)
        self.stage = StoreWatch(self._store, self.clock, may_have_duty=True)

    def close(self) -> None:
        self._store.shutdown()


class TenantWatchCase(_Watching):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stage = TenantWatch(lambda: ["shop"], lambda tenant: None)


class ConnectionsCase(_Watching):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stage = GrpcConnections(16, MemoryGuard(1 << 40, self.clock), peers=None)


class _Exporter:
    """Takes all."""

    def export(self, batch: object, /) -> LogRecordExportResult:
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None: ...


class EventPushCase(_Watching):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stage = EventPush(
            _Exporter(), MemoryOutbox(), Counting(),
            resource=Resource({}), scope=InstrumentationScope("tests"), is_on_duty=lambda: True,
        )  # fmt: skip


class MetricPushCase(_Watching):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stage = MetricPush(_Exporter(), Meter(Resource({}), InstrumentationScope("tests")), 60.0)


CASES: tuple[type[Case], ...] = (
    LogCase, AssemblyCase, EvaluationCase, LoopsCase, JudgeCase, RetentionCase,
    StoreWatchCase, TenantWatchCase, ConnectionsCase, EventPushCase, MetricPushCase,
)  # fmt: skip
