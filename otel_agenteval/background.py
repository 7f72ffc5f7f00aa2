"""What threads of ours have in common: how they wait for a collector, and that nobody instruments them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as context_api

MAX_BACKOFF: Final = 5.0
FIRST_BACKOFF: Final = 0.1


def backoff(attempt: int) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 0): doubling, with jitter, at most 5."""
    return min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(attempt, 16)) * random.uniform(0.5, 1.0)


@contextmanager
def suppressing_instrumentation() -> Iterator[None]:
    """Our own requests must never become somebody's spans.

    Instrumentation is switched off by a key of the API, and for some libraries by another one.
    """
    context = context_api.set_value("suppress_instrumentation", True)
    key = getattr(context_api, "_SUPPRESS_INSTRUMENTATION_KEY", None)
    token = context_api.attach(context if key is None else context_api.set_value(key, True, context))
    try:
        yield
    finally:
        context_api.detach(token)
