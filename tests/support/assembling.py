"""An assembler between a log and a store that are held in memory, and can crash."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.config.settings import AssemblyConfig, SenderConfig
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import Counted
from agenteval_collector.model.logged_requests import LoggedRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.clock import ManualClock
from tests.support.otlp import logged

SETTLE, SETTLE_LOGS, SILENCE = 0.25, 5.0, 60.0


class Counting:
    """Telemetry, counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, what: Counted, number: int = 1, which: str = "") -> None:
        self.counts[f"{what} {which}".strip()] += number


class Bench:
    """`send` and `advance` return what completes by them; nothing is scored until `score` is called.

    A crash keeps what was learned of senders up to the last `score`, as the stage saves it. `reloaded` counts requests
    that were read from the log again.
    """

    def __init__(
        self,
        *,
        settle: float = SETTLE,
        max_age: float = 600.0,
        max_open_bytes: int = 1 << 30,
        max_recent_bytes: int = 0,
        rules: Mapping[str, SenderConfig] | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.telemetry = Counting()
        self.log: dict[int, LoggedRequest] = {}
        self.store: dict[str, AssembledTrace] = {}
        self.handed: deque[AssembledTrace] = deque()
        self.checkpoint = 0
        self.reloaded = 0
        self.learned: dict[str, str] = {}
        self._rules = rules
        self._config = AssemblyConfig(
            settle=settle,
            settle_logs=SETTLE_LOGS,
            silence=SILENCE,
            max_age=max_age,
            max_open_bytes=max_open_bytes,
            max_recent_bytes=max_recent_bytes,
        )
        self._last = 0
        self.assembler = self._make()

    def send(self, *requests: ExportTraceServiceRequest | ExportLogsServiceRequest) -> list[AssembledTrace]:
        batch = []
        for request in requests:
            self._last += 1
            self.log[self._last] = logged(self._last, request, received_at=self.clock.now())
            batch.append(self.log[self._last])
        return self._hand(self.assembler.take_requests(batch))

    def advance(self, seconds: float) -> list[AssembledTrace]:
        self.clock.advance(seconds)
        return self._hand(self.assembler.due())

    def score(self, how_many: int | None = None) -> None:
        """Commit what was handed over, the oldest first, and say so."""
        for _ in range(len(self.handed) if how_many is None else min(how_many, len(self.handed))):
            trace = self.handed.popleft()
            self.commit(trace)
            self.assembler.scored(trace.trace_id, trace.revision)
        learned = self.assembler.senders.unsaved()
        self.learned |= learned
        self.assembler.senders.saved(learned)

    def commit(self, trace: AssembledTrace) -> None:
        before = self.store.get(trace.trace_id)
        assert trace.revision == (before.revision if before else 0) + 1, "revisions follow one another"
        assert trace.complete
        self.store[trace.trace_id] = trace

    def save_checkpoint(self) -> None:
        self.checkpoint = max(self.checkpoint, self.assembler.checkpoints().get(0, 0))

    def crash(self) -> list[AssembledTrace]:
        """Lose all that is in memory, start again and replay; what completes by that."""
        self.handed.clear()
        self.assembler = self._make()
        replayed = [request for offset, request in sorted(self.log.items()) if offset >= self.checkpoint]
        return self._hand(self.assembler.take_requests(replayed))

    def _make(self) -> Assembler:
        return Assembler(
            self.clock, self.telemetry, Senders(self.learned.items(), self._rules), self._config, store=self, log=self,
        )  # fmt: skip

    def known_traces(self, trace_ids: Sequence[str]) -> dict[str, tuple[int, frozenset[int]]]:
        return {
            each: (self.store[each].revision, frozenset(self.store[each].offsets))
            for each in trace_ids
            if each in self.store
        }

    def get(self, offsets: Sequence[int]) -> Iterator[LoggedRequest]:
        self.reloaded += len(offsets)
        return (self.log[offset] for offset in offsets if offset in self.log)

    def _hand(self, traces: list[AssembledTrace]) -> list[AssembledTrace]:
        self.handed.extend(traces)
        return traces


def spans_of(trace: AssembledTrace) -> list[int]:
    """The numbers of the spans that a trace was assembled from, in order."""
    return sorted(int.from_bytes(Span.FromString(raw).span_id, "big") for raw, _ in trace.spans)
