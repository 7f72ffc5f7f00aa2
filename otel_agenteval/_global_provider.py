"""The only module that touches private names of `opentelemetry.trace`.

The API lets a tracer provider be set once per process and tells nobody. So, while none is set, a placeholder stands in
the API's variable: a `ProxyTracerProvider`, hence libraries still find "none set" and set their own; its tracers look
at each start of a span for the provider of that moment.
"""

import logging
import os
import threading
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import ProxyTracer, ProxyTracerProvider, Tracer
from opentelemetry.util import types

_logger = logging.getLogger("otel_agenteval")


def is_set() -> bool:
    """Return whether the application, or a library for it, has set a tracer provider."""
    return not isinstance(trace_api.get_tracer_provider(), ProxyTracerProvider)


def processors_of(provider: object) -> tuple[SpanProcessor, ...]:
    """Return the span processors of an SDK provider. None of them where the provider's inside has changed."""
    multi = getattr(provider, "_active_span_processor", None)
    found = getattr(multi, "_span_processors", ())
    return tuple(found)


def follow(hook: Callable[[trace_api.TracerProvider], None]) -> None:
    """Call `hook` with the global provider once it is set, maybe more than once; till then spans of its tracers reach
    it."""
    if not hasattr(trace_api, "_TRACER_PROVIDER") or not hasattr(trace_api, "_set_tracer_provider"):
        _logger.warning("this opentelemetry-api is unknown to agenteval: setting a tracer provider for the process")
        provider = provider_from_environment()
        trace_api.set_tracer_provider(provider)
        hook(provider)
        return
    set_provider = trace_api._set_tracer_provider

    def set_and_hook(tracer_provider: trace_api.TracerProvider, log: bool) -> None:
        set_provider(tracer_provider, log)
        if is_set():
            hook(trace_api.get_tracer_provider())

    trace_api._set_tracer_provider = set_and_hook
    trace_api._TRACER_PROVIDER = PlaceholderProvider(hook)


class PlaceholderProvider(ProxyTracerProvider):
    """Stands in while no provider is set. Its first span makes one from OTEL_*, unless the application was faster."""

    def __init__(self, hook: Callable[[trace_api.TracerProvider], None]) -> None:
        self._hook = hook
        self._fallback: TracerProvider | None = None
        self._lock = threading.Lock()

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: types.Attributes = None,
    ) -> Tracer:
        return FollowingTracer(self, instrumenting_module_name, instrumenting_library_version, schema_url, attributes)

    def resolve(self) -> trace_api.TracerProvider:
        """Return the provider to use now: the application's, else ours."""
        current = trace_api._TRACER_PROVIDER
        if current is not None and current is not self:
            return current
        with self._lock:
            if self._fallback is None:
                fallback = provider_from_environment()
                self._hook(fallback)
                self._fallback = fallback
            return self._fallback

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush as the SDK's provider does, because applications call it on whatever is the global one."""
        return self._fallback is None or self._fallback.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Shut down as the SDK's provider does."""
        if self._fallback is not None:
            self._fallback.shutdown()


class FollowingTracer(ProxyTracer):
    """A tracer that asks at each start of a span which provider it belongs to."""

    def __init__(self, placeholder: PlaceholderProvider, *scope: Any) -> None:
        super().__init__(*scope)
        self._placeholder = placeholder
        self._scope = scope
        self._followed: tuple[trace_api.TracerProvider, Tracer] | None = None

    @property
    def _tracer(self) -> Tracer:
        provider = self._placeholder.resolve()
        followed = self._followed
        if followed is None or followed[0] is not provider:
            followed = self._followed = (provider, provider.get_tracer(*self._scope))
        return followed[1]


def provider_from_environment() -> TracerProvider:
    """Make an SDK provider from OTEL_*: resource, sampler, limits, and OTEL_TRACES_EXPORTER."""
    provider = TracerProvider()
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "none").split(","):
        if (name := name.strip()) in ("", "none"):
            continue
        if name == "otlp":
            protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
                "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"
            )
            name = "otlp_proto_http" if protocol.strip() == "http/protobuf" else "otlp_proto_grpc"  # noqa: PLW2901
        found = entry_points(group="opentelemetry_traces_exporter", name=name)
        if not found:
            _logger.warning("OTEL_TRACES_EXPORTER names %r, and no installed package provides it", name)
            continue
        provider.add_span_processor(BatchSpanProcessor(next(iter(found)).load()()))
    return provider
