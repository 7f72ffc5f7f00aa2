"""Counters whose new series begin with 0, so that their first increments are an increase.

A series that appears with its first increment has no value before it: `increase()` in Prometheus does not see the first
burst of failures of a new version, which is the one that matters. So a series shows 0 to each reader (the scrape, the
push) once before it shows more. The increments are kept meanwhile; nothing is lost and nothing has to wait.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

_reader: Final = ContextVar[Hashable]("reader", default="push")


@contextmanager
def read_by(reader: Hashable) -> Iterator[None]:
    """Say who collects in this block, other than the push: each reader is shown the 0 of a new series for itself."""
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


class EventCounter:
    """A counter of the meter. Adding takes a lock and no look at the attributes, so that they must be few and bounded.
    Thread-safe."""

    def __init__(self, meter: Meter, name: str, *, unit: str, description: str) -> None:
        self._lock = Lock()
        self._totals: dict[tuple[tuple[str, str], ...], float] = {}
        # How many of the series, in the order in which they came, each reader has been shown.
        self._shown: dict[Hashable, int] = {}
        meter.create_observable_counter(name, [self._observe], unit=unit, description=description)

    def add(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Add `amount`, 0 or more, to the series with these attributes."""
        key = tuple(sorted(attributes.items())) if attributes else ()
        with self._lock:
            self._totals[key] = self._totals.get(key, 0) + amount

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        with self._lock:
            totals = [*self._totals.items()]
            known = self._shown.get(_reader.get(), 0)
            self._shown[_reader.get()] = len(totals)
        return [Observation(total if place < known else 0, dict(key)) for place, (key, total) in enumerate(totals)]
