"""Every stage starts, stops, fails and says how it is in the same way."""

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from agenteval_collector.assembly import Assembler, AssemblyStage, Progress, Senders, Unconnected
from agenteval_collector.config import AssemblyConfig
from agenteval_collector.findings.loops import Announcer, LiveLoops, LoopStage
from agenteval_collector.log import RequestFile, RequestLog
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.judge_jobs import Judgement
from agenteval_collector.model.logged_requests import Arrival, LoggedRequest, Origin, Signal
from agenteval_collector.model.news import News
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.component import Component
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.stores import Store

from otel_agenteval.conventions.identity import BY_CONVENTION
from otel_agenteval.detectors import RuleBook
from tests.support.assembling import Counting
from tests.support.eventually import eventually
from tests.support.judge_stage import World, job
from tests.support.looping import tool_span
from tests.support.otlp import logged, marked, span, traces, turn
from tests.support.scoring import Scoring, assembled

ROOM = 1 << 20
FOREIGN = Origin(b"", "lib", None)


class Case(ABC):
    """A stage between neighbours that keep what it hands on; `done` are the numbers of the items that came through."""

    stage: Component
    table = ""
    """The table without which the stage's file refuses; empty where it has none."""
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
        self._store, self._requests = Store(self.file, self.clock), RequestFile(folder / "log.db")
        alone, telemetry = Unconnected(), Counting()
        assembler = Assembler(
            self.clock, telemetry, self._store, self._requests, alone, alone, Senders(),
            AssemblyConfig(settle=60.0, settle_logs=60.0, max_age=60.0, max_open_bytes=ROOM, max_recent_bytes=0),
        )  # fmt: skip
        self.stage = self._assembly = AssemblyStage(
            assembler, tenant="default", log=self._requests, evaluation=self, progress=Progress(alone),
            store=self._store, open_spans=alone, clock=self.clock, telemetry=telemetry,
            memory=MemoryGuard(1 << 40, self.clock), max_pending_bytes=ROOM, retention=60.0,
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
        self._store = Store(self.file, self.clock)
        telemetry = Counting()
        live = LiveLoops(RuleBook(), BY_CONVENTION, self.clock)
        announcer = Announcer(self._store.findings, list, self, self.clock)
        self.stage = self._loops = LoopStage(live, announcer, telemetry)

    def give(self, number: int) -> None:
        self._loops.take_arrivals([Arrival(tool_span(number, call), FOREIGN) for call in (2, 3, 4)], 100)

    def give_defect(self) -> None:
        self._loops.take_arrivals([Arrival(None, FOREIGN)], 100)  # type: ignore[arg-type]

    def take_news(self, news: News) -> None:
        self.done += [int(finding.trace_id, 16) for finding in news.told]

    def close(self) -> None:
        self._store.shutdown()


class _Delivering(World):
    done: list[int]

    def take_judgement(self, judgement: Judgement) -> None:
        if judgement.job.trace_id.isdigit():
            self.done.append(int(judgement.job.trace_id))


class JudgeCase(Case):
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


CASES = (LogCase, AssemblyCase, EvaluationCase, LoopsCase, JudgeCase)


@pytest.fixture(params=CASES, ids=lambda case: case.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    made: Case = request.param(tmp_path)
    yield made
    made.stage.shutdown()
    made.close()


def test_a_second_start_is_an_error_and_harms_nothing(case: Case) -> None:
    case.stage.start()
    with pytest.raises(RuntimeError):
        case.stage.start()
    case.give(1)
    eventually(lambda: case.done == [1])


def test_a_stop_before_the_start_and_a_second_one_are_safe(case: Case) -> None:
    case.stage.shutdown()
    case.stage.shutdown()
    assert not case.stage.alive


def test_its_health_is_that_of_its_thread(case: Case) -> None:
    sentence = f"{case.stage.name} does not run"
    before = case.stage.health
    case.stage.start()
    running = case.stage.health
    case.stage.shutdown()
    assert (before, running, case.stage.health) == (sentence, None, sentence)


def test_a_stop_under_load_comes_to_an_end_and_does_nothing_twice(case: Case) -> None:
    stopped = threading.Event()
    load = threading.Thread(target=_load, args=(case.give, stopped))
    load.start()
    case.stage.start()
    eventually(lambda: len(case.done) > 10)
    case.stage.shutdown(60.0)
    assert not case.stage.alive
    done = list(case.done)
    stopped.set()
    load.join(10)
    assert case.done == done
    assert len(set(done)) == len(done)


def _load(give: Callable[[int], None], stopped: threading.Event) -> None:
    number = 0
    while not stopped.wait(0.002):
        number += 1
        try:
            give(number)
        except CollectorError:
            number -= 1


def test_a_defect_costs_one_item(case: Case) -> None:
    case.give_defect()
    case.stage.start()
    case.give(2)
    eventually(lambda: case.done == [2])
    eventually(lambda: case.stage.health is None)


@pytest.mark.parametrize("case", [each for each in CASES if each.table], indirect=True, ids=lambda case: case.__name__)
def test_a_file_that_refuses_is_told_until_it_takes_again_and_nothing_is_lost(case: Case) -> None:
    case.stage.start()
    with case.refusing():
        case.give(1)
        sentence = eventually(lambda: case.stage.health)
        assert sentence.startswith(f"{case.stage.name} is held up: ")
        assert case.done == []
    eventually(lambda: case.stage.health is None)
    if case.refuses_senders:
        case.give(2)
    eventually(lambda: case.done == [2 if case.refuses_senders else 1])
