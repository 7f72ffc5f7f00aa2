"""What is watched beside the agent: spans of a real SDK, looked at without threads."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import Tracer

from otel_agenteval.context import SpanIdentity
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.finding import Finding
from otel_agenteval.loops.watch import Watch
from otel_agenteval.sending.announcements import Announcements
from otel_agenteval.sending.buffer import EndedSpan, ended_span


class Watched(SpanProcessor):
    """Hands a provider's spans to a watch as the processor does, and keeps what it finds; time is what `now` says."""

    def __init__(
        self, rules: RuleBook | None = None, every: Callable[[Watch], None] = Watch.look, *, is_heard: bool = True
    ) -> None:
        self.found: list[Finding] = []
        self.ended: list[EndedSpan] = []
        self.now = 0
        self.identity: SpanIdentity | None = None
        self._every = every
        announcements = Announcements("p", False, lambda: None, lambda: 0.0, lambda: self.now)
        self.watch = Watch(rules or RuleBook(), self.found.append, announcements, lambda: 0.0, lambda: self.now)
        if is_heard:
            self.watch.look_for_all()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self)
        self.tracer: Tracer = provider.get_tracer("agent")

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.watch.started(span, self.identity)
        self._every(self.watch)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(ended_span(span, self.identity))
        self.watch.ended(self.ended[-1])
        if self.watch.is_heard:
            self._every(self.watch)

    def kinds(self) -> list[str]:
        return [loop.kind for loop in self.found]

    @contextmanager
    def within(self, name: str, attributes: Mapping[str, str]) -> Iterator[None]:
        """A span around what is done meanwhile."""
        with self.tracer.start_as_current_span(name, attributes=attributes):
            yield
