"""`attach()`: it puts the processor on the tracer provider of the process, also on one that is set later."""

import inspect
import logging
import os
import threading
from typing import Any

from opentelemetry import trace as trace_api

from otel_agenteval import _global_provider
from otel_agenteval.config import AGENTEVAL_ATTACH, AGENTEVAL_ENDPOINT
from otel_agenteval.processor import AgentEvalSpanProcessor

_SIGNATURE = inspect.signature(AgentEvalSpanProcessor)
_logger = logging.getLogger("otel_agenteval")


class _Attachment:
    """The state of `attach()` in this process."""

    def __init__(self) -> None:
        self.renew_lock()
        self.processor: AgentEvalSpanProcessor | None = None
        self.options: dict[str, Any] = {}
        self.following = False
        self.warned = False

    def renew_lock(self) -> None:
        """Take a new lock, in a forked child too: another thread may have held the old one at the fork."""
        # Re-entrant: `attach` may set a provider of ours, and that calls `to` on the same thread.
        self.lock = threading.RLock()

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

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_attachment.renew_lock)


def attach(**options: Any) -> AgentEvalSpanProcessor:
    """Stream this process's spans to the collector, and return the processor. The options are those of
    `AgentEvalSpanProcessor`.

    The processor is added to the tracer provider that is set, or that will be set; no provider is replaced. If none is
    set when the first span starts, one is made from the OTEL_* variables. A provider that is set after that takes over.

    A second call returns the same processor, also after a zero-code attachment. A provider that takes no span
    processors is left alone, with one warning. Raises TypeError and ValueError for bad options, as the class does.
    """
    # A misspelt option is an error even if a processor exists, and options have no effect.
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
    """Attach if AGENTEVAL_ENDPOINT is set or `agenteval run` started the process. It needs no code in the application.

    Errors are logged, not raised: an application that does not name us in its code must not fail because of us.
    """
    if not (os.environ.get(AGENTEVAL_ENDPOINT) or os.environ.get(AGENTEVAL_ATTACH)):
        return
    try:
        attach()
    except ValueError as error:  # An invalid setting, which the message names.
        _logger.error("agenteval could not attach: %s", error)
    except Exception as error:
        _logger.error("agenteval could not attach: %s", error, exc_info=error)
