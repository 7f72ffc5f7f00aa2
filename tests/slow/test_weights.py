"""What is counted as memory is what telemetry takes, as Python sees it."""

import gc
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import pytest
from agenteval_collector.model.logged_requests import LoggedRequest, Signal
from agenteval_collector.runtime.inbox import Inbox
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.assembling import Bench
from tests.support.otlp import START, log, logs, marked, span, traces

NEAR: Final = 0.15

pytestmark = pytest.mark.slow


def taken(work: Callable[[], object]) -> int:
    """Bytes that `work` allocates and keeps."""
    gc.collect()
    tracemalloc.start()
    work()
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept


def together(spans: Iterable[Span], number: int = 100) -> Iterator[bytes]:
    """The spans in requests of so many."""
    given = iter(spans)
    while some := list(islice(given, number)):
        yield traces(*some).SerializeToString()


@pytest.mark.parametrize(
    ("bodies", "signal"),
    [
        pytest.param(list(together(span(n, 1, parent=7) for n in range(1, 50_000))), Signal.TRACES, id="of one span"),
        pytest.param(
            list(together((span(n, 1 + k, parent=90) for n in range(1, 2000) for k in range(9)), 9)), Signal.TRACES,
            id="of nine spans",
        ),
        pytest.param(
            list(together((span(n, 1 + k, parent=90 + k) for k in range(9) for n in range(1, 2000)), 1)), Signal.TRACES,
            id="of nine spans in a request each",
        ),
        pytest.param(
            list(together(span(n, k, parent=999, text="x" * 4000) for n in range(1, 20) for k in range(1, 101))),
            Signal.TRACES, id="of large spans",
        ),
        pytest.param(
            list(together(marked(span(n, 1, parent=7), 5, "p") for n in range(1, 5000))), Signal.TRACES,
            id="of spans that are counted",
        ),
        pytest.param(
            [logs(*(log(n, k, gen_ai__x="y") for k in range(1, 21))).SerializeToString() for n in range(500)],
            Signal.LOGS, id="of log records",
        ),
    ],
)  # fmt: skip
def test_open_traces_take_what_is_counted(bodies: Sequence[bytes], signal: Signal) -> None:
    bench = Bench()
    # What is made once is made before.
    bench.send(traces(span(1 << 100, 1, parent=7)), logs(log(1 << 100, 1, gen_ai__x="y")))
    before = bench.assembler.held

    def assemble() -> None:
        for offset, body in enumerate(bodies, 1000):
            bench.assembler.take_requests([LoggedRequest(offset, "default", signal, START + offset, body)])

    kept = taken(assemble)
    assert bench.assembler.held - before == pytest.approx(kept, rel=NEAR)


def test_waiting_requests_take_what_is_counted() -> None:
    inbox: Inbox[LoggedRequest] = Inbox(1 << 40)
    body = traces(span(1, 1)).SerializeToString()

    def wait() -> None:
        for offset in range(1000, 131_000):
            # A body of its own, as each that comes in.
            request = LoggedRequest(offset, "default", Signal.TRACES, START + offset, bytes(bytearray(body)))
            inbox.put_regardless(request, request.size)

    kept = taken(wait)
    assert inbox.weight == pytest.approx(kept, rel=NEAR)
