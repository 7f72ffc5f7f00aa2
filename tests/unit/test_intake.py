"""What has started and ended, between the agent's threads and ours: order, bounds, and who does the work."""

import threading

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer, set_span_in_context

from otel_agenteval.context import SpanIdentity
from otel_agenteval.sending import intake as module
from otel_agenteval.sending.buffer import EndedSpan, SpanBuffer
from otel_agenteval.sending.intake import HELP, MAX_UNTIMED, SpanIntake
from otel_agenteval.sending.open_traces import TraceTable


class Scene(SpanProcessor):
    """Hands a provider's spans over as the processor does; nobody takes them in but the test."""

    def __init__(self, max_spans: int = 10_000, max_bytes: int = 1 << 26) -> None:
        self.table = TraceTable(lambda: 0.0)
        self.buffer = SpanBuffer(max_spans, max_bytes)
        self.faults: list[Exception] = []
        self.wakes = 0
        self.identity: SpanIdentity | None = None
        self.intake = SpanIntake(self.table, self.buffer, None, self._wake, self.faults.append)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self)
        self.tracer: Tracer = provider.get_tracer("agent")

    def _wake(self) -> None:
        self.wakes += 1

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.intake.events.append((span, self.identity, None))
        if len(self.intake) > self.intake.limit:
            self.intake.relieve()

    def on_end(self, span: ReadableSpan) -> None:
        self.intake.events.append(span)

    def spans(self, count: int, size: int = 0) -> None:
        for _ in range(count):
            self.tracer.start_span("span", attributes={"text": "x" * size}).end()

    def taken(self) -> list[EndedSpan]:
        self.intake.take_in()
        return self.buffer.take(100_000, 1 << 40)


def test_a_span_as_large_as_the_buffer_fits_into_it_alone() -> None:
    buffer = SpanBuffer(max_spans=10, max_bytes=1000)
    assert buffer.has_room(1000)
    assert (buffer.oversized, buffer.refused) == (0, 0)
    assert not buffer.has_room(1001)
    assert (buffer.oversized, buffer.oversized_bytes, buffer.refused) == (1, 1001, 0)


def test_a_trace_is_counted_and_named_in_the_order_in_which_its_spans_came() -> None:
    scene = Scene()
    scene.identity = SpanIdentity("s1")
    with scene.tracer.start_as_current_span("root"):
        scene.identity = None
        with scene.tracer.start_as_current_span("inner"):
            scene.tracer.start_span("innermost").end()
    assert scene.table.open_spans == 0, "nothing was done where the spans ended"
    taken = scene.taken()
    assert [each.span.name for each in taken] == ["innermost", "inner", "root"]
    assert [each.identity for each in taken] == [SpanIdentity("s1")] * 3
    assert [each.span_count for each in taken] == [None, None, 3]


def test_few_spans_leave_the_work_to_our_threads_and_many_share_it() -> None:
    scene = Scene()
    scene.spans(MAX_UNTIMED)
    assert (scene.buffer.accepted, scene.wakes) == (0, 0)
    scene.spans(MAX_UNTIMED)
    assert scene.wakes > 0
    assert 2 * MAX_UNTIMED - HELP <= len(scene.intake) <= 2 * MAX_UNTIMED + 1
    assert len(scene.taken()) == 2 * MAX_UNTIMED


@pytest.mark.parametrize(
    ("bounds", "size", "kept"),
    [
        pytest.param({"max_spans": 100}, 0, 100, id="by spans"),
        pytest.param({"max_bytes": 1_000_000}, 20_000, 46, id="by bytes"),
    ],
)
def test_what_waits_is_bounded_though_nobody_takes_it_in(bounds: dict[str, int], size: int, kept: int) -> None:
    scene = Scene(**bounds)
    scene.spans(5_000, size)
    assert len(scene.intake) <= 2 * 100 + 2
    scene.intake.take_in()
    assert abs(scene.buffer.accepted - kept) <= 1
    assert scene.buffer.accepted + scene.buffer.refused == 5_000


def test_where_another_thread_holds_up_what_waits_the_newest_go_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 3_000)
    scene = Scene()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with scene.intake._lock:
            held.set()
            release.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(20)
    scene.spans(2_000)
    assert len(scene.intake) <= 3_002
    release.set()
    holder.join(20)
    assert len(scene.taken()) + scene.intake.lost == 2_000
    assert scene.intake.lost > 0


def test_spans_that_are_not_sampled_are_not_taken() -> None:
    scene = Scene()
    unsampled = NonRecordingSpan(SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(0)))
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(scene)
    provider.get_tracer("agent").start_span("span", context=set_span_in_context(unsampled)).end()
    scene.intake.events.append(ReadableSpan("span", context=unsampled.get_span_context()))
    assert not scene.taken()
    assert not scene.faults


def test_after_the_stop_spans_are_only_counted() -> None:
    scene = Scene()
    scene.spans(3)
    scene.intake.stop(1.0)
    scene.spans(5)
    scene.intake.take_in()
    assert (scene.buffer.accepted, scene.intake.too_late, len(scene.intake)) == (3, 5, 0)


def test_an_end_after_its_root_may_close_the_trace() -> None:
    scene = Scene()
    root = scene.tracer.start_span("root")
    child = scene.tracer.start_span("child", context=set_span_in_context(root))
    root.end()
    scene.intake.take_in()
    assert scene.table.without_root == 1
    child.end()
    scene.intake.take_in()
    assert (scene.table.without_root, scene.buffer.is_urgent) == (0, True)


def test_a_span_that_cannot_be_read_costs_no_other() -> None:
    scene = Scene()
    scene.intake.events.append(object())  # type: ignore[arg-type]
    scene.spans(1)
    assert len(scene.taken()) == 1
    assert len(scene.faults) == 1


def test_after_a_fork_identities_are_known_and_nothing_waits() -> None:
    scene = Scene()
    scene.identity = SpanIdentity("s1")
    root = scene.tracer.start_span("root")
    scene.spans(2)
    scene.intake.disown()
    assert (len(scene.intake), scene.buffer.accepted, scene.table.open_spans) == (0, 0, 0)
    assert scene.table.inherited(root.get_span_context().trace_id, None) == SpanIdentity("s1")


def test_taking_in_that_comes_upon_itself_does_nothing() -> None:
    """As where a garbage collection interrupts it and ends spans."""
    scene = Scene()

    class Interrupting(SpanIdentity):
        def completed_by(self, other: SpanIdentity) -> SpanIdentity:
            scene.spans(1)
            scene.intake.take_in()
            scene.intake.take_in()
            return super().completed_by(other)

    scene.identity = Interrupting("s1")
    with scene.tracer.start_as_current_span("root"):
        scene.identity = Interrupting("s2")
        child = scene.tracer.start_span("child")
        scene.identity = None
        child.end()
    scene.intake.take_in()
    assert [each.span.name for each in scene.taken()] == ["child", "root", "span"]
    assert not scene.faults
