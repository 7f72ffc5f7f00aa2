"""The global tracer provider. This is the only module that uses private names of `opentelemetry.trace`.

The API lets a process set one tracer provider, and notifies nobody. So, while none is set, this module puts a
placeholder into the API's variable. The placeholder is a `ProxyTracerProvider`, so libraries still see that none is
set, and set their own. At each start of a span, its tracers look up the provider that is set by then.
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
    """Return whether the application or a library has set a tracer provider."""
    return not isinstance(trace_api.get_tracer_provider(), ProxyTracerProvider)


def processors_of(provider: object) -> tuple[SpanProcessor, ...]:
    """Return the span processors of an SDK provider. They are private: none are found in an SDK that has renamed
    them."""
    multi = getattr(provider, "_active_span_processor", None)
    processors = getattr(multi, "_span_processors", ())
    return tuple(processors)


def follow(hook: Callable[[trace_api.TracerProvider], None]) -> None:
    """Call `hook` with the global provider once it is set, maybe more than once.

    Until then a placeholder stands in for it. If a span starts before that, the placeholder makes a provider, and
    `hook` gets that one too.
    """
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
    """Stands in while no provider is set. At its first span, it makes one from OTEL_* if there still is none."""

    def __init__(self, hook: Callable[[trace_api.TracerProvider], None]) -> None:
        self._hook = hook
        self._fallback: TracerProvider | None = None
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        """Take a new lock, in a forked child too: another thread may have held the old one at the fork."""
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
        """Flush as the SDK's provider does. Applications call this on the global provider, whichever it is."""
        return self._fallback is None or self._fallback.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Shut down as the SDK's provider does."""
        if self._fallback is not None:
            self._fallback.shutdown()


class FollowingTracer(ProxyTracer):
    """A tracer that looks up its provider at each start of a span."""

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
        exporters = entry_points(group="opentelemetry_traces_exporter", name=name)
        if not exporters:
            _logger.warning("OTEL_TRACES_EXPORTER names %r, and no installed package provides it", name)
            continue
        provider.add_span_processor(BatchSpanProcessor(next(iter(exporters)).load()()))
    return provider
