"""`attach()`: put the processor on the process's tracer provider, whichever that is or comes to be."""

import inspect
import logging
import os
import threading
from typing import Any

from opentelemetry import trace as trace_api

from otel_agenteval import _global_provider
from otel_agenteval.config import AGENTEVAL_ENDPOINT
from otel_agenteval.processor import AgentEvalSpanProcessor

AGENTEVAL_ATTACH = "AGENTEVAL_ATTACH"
"""Set by `agenteval run` for the processes it starts."""

_SIGNATURE = inspect.signature(AgentEvalSpanProcessor)
_logger = logging.getLogger("otel_agenteval")


class _Attachment:
    """The state of `attach()` in this process."""

    def __init__(self) -> None:
        # Re-entrant: setting the provider that we make ourselves comes back here.
        self.lock = threading.RLock()
        self.processor: AgentEvalSpanProcessor | None = None
        self.options: dict[str, Any] = {}
        self.following = False
        self.warned = False

    def to(self, provider: trace_api.TracerProvider) -> None:
        """Add the processor to `provider` unless it has one of ours."""
        with self.lock:
            for processor in _global_provider.processors_of(provider):
                if isinstance(processor, AgentEvalSpanProcessor):
                    self.processor = processor
                    return
            if self.processor is None:
                self.processor = AgentEvalSpanProcessor(**self.options)
            add = getattr(provider, "add_span_processor", None)
            if add is not None:
                add(self.processor)
            elif not self.warned:
                self.warned = True
                _logger.warning(
                    "the tracer provider %s takes no span processors: agenteval sees none of its spans",
                    type(provider).__qualname__,
                )


_attachment = _Attachment()


def attach(**options: Any) -> AgentEvalSpanProcessor:
    """Stream this process's spans to the collector; the options are those of `AgentEvalSpanProcessor`.

    Adds the processor to the tracer provider that is set, or will be: it never replaces one. Where none is set by
    the time a span starts, one is made from the OTEL_* environment, and a provider that is set afterwards takes
    over. Calling it again, also after a zero-code attachment, returns the processor there is. A provider that takes
    no span processors is left alone, with one warning. Raises TypeError and ValueError for options as the class.
    """
    # A misspelt option is an error also where a processor exists and the options have no effect.
    _SIGNATURE.bind(**options)
    with _attachment.lock:
        if _attachment.processor is not None and options not in ({}, _attachment.options):
            _logger.warning("agenteval is attached already: the options of this attach() have no effect")
        elif _attachment.processor is None:
            _attachment.options = options
        if _global_provider.is_set():
            _attachment.to(trace_api.get_tracer_provider())
        elif not _attachment.following:
            if _attachment.processor is None:
                _attachment.processor = AgentEvalSpanProcessor(**options)
            _global_provider.follow(_attachment.to)
            _attachment.following = True
        assert _attachment.processor is not None
        return _attachment.processor


def attach_from_environment() -> None:
    """Attach where AGENTEVAL_ENDPOINT is set or `agenteval run` started the process; the zero-code entry point.

    An application that did not ask for us in its code must not fail because of us: what goes wrong is logged.
    """
    if not (os.environ.get(AGENTEVAL_ENDPOINT) or os.environ.get(AGENTEVAL_ATTACH)):
        return
    try:
        attach()
    except Exception as error:
        _logger.error("agenteval could not attach: %s", error, exc_info=error)
