"""Processors on providers of their own, in front of a fake collector; fixtures for the modules that import them."""

from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from otel_agenteval import AgentEvalSpanProcessor
from tests.support.fake_collector import FakeCollector, attributes

Make = Callable[..., tuple[AgentEvalSpanProcessor, Tracer]]


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with FakeCollector() as collector:
        yield collector


@pytest.fixture
def make(collector: FakeCollector) -> Iterator[Make]:
    made: list[AgentEvalSpanProcessor] = []

    def make(
        endpoint: str | None = None, provider: TracerProvider | None = None, **options: object
    ) -> tuple[AgentEvalSpanProcessor, Tracer]:
        processor = AgentEvalSpanProcessor(endpoint or collector.endpoint, **{"shutdown_timeout": 1.0, **options})  # type: ignore[arg-type]
        provider = provider or TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        made.append(processor)
        return processor, provider.get_tracer("agent")

    yield make
    for processor in made:
        processor.shutdown()


def names(collector: FakeCollector) -> list[str]:
    return [span.name for span in collector.spans()]


def span_attributes(collector: FakeCollector) -> dict[str, dict[str, object]]:
    return {span.name: attributes(span) for span in collector.spans()}
