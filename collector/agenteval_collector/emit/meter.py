"""The instruments of a collector: counters and histograms whose new series begin with 0, and observable instruments.

Where a series appears with its first increment, `increase()` in Prometheus sees no value before it. It misses the first
burst of failures of a new version, which is the one that matters. So each reader (the scrape, the push) sees 0 once
before it sees more. Nothing that is recorded meanwhile is lost, and nothing waits. A reader that is itself new sees the
full value of series older than `NEW_FOR`: otherwise all that they ever counted would look like an increase.

The SDK's instruments cannot do that, and take ten times as long to record. Its data model is kept, so that its
exporters can encode and send the values.
"""

import logging
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

_Key: TypeAlias = tuple[tuple[str, str], ...]
_Value = TypeVar("_Value")
_CUMULATIVE: Final = sdk.AggregationTemporality.CUMULATIVE
NEW_FOR: Final = 300 * 10**9
"""Age in nanoseconds up to which a series begins with 0 for a reader that has never read before."""
SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bounds of histograms of durations, in seconds. They equal those of `gen_ai.client.operation.duration`, so that both
can be compared."""


Observations: TypeAlias = Iterable[tuple[float, Mapping[str, str]]]
"""Values with their attributes. Of two with equal attributes the last one is shown."""

_logger = logging.getLogger(__name__)


class ExemplarSpan(NamedTuple):
    """The span that is kept as the exemplar of a recorded value."""

    trace_id: int
    span_id: int


def exemplar_span(trace_id: str | None, span_id: str | None) -> ExemplarSpan | None:
    """Return the span with these ids in hex; None where one of them is unknown."""
    return ExemplarSpan(int(trace_id, 16), int(span_id, 16)) if trace_id and span_id else None


class _Instrument(ABC, Generic[_Value]):
    """Values by their attributes. Recording takes a lock and does not check the attributes: callers keep them few and
    bounded. Thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._series: dict[_Key, _Value] = {}
        # The time (ns) at which each series began, in order.
        self._begun: list[int] = []
        # By reader, how many series it has seen: the first so many in the order in which they began.
        self._shown: dict[str, int] = {}

    def has_new(self, reader: str) -> bool:
        """Return whether there is a series that the reader has not seen."""
        return self._shown.get(reader, 0) < len(self._series)

    def data(self, reader: str | None, since: int, now: int) -> sdk.Sum | sdk.Histogram:
        """Return the values for the reader, from `since` to `now` (nanoseconds since the Unix epoch).

        Series that are new to the reader are 0. Reader None sees everything, and does not count as having seen it.
        """
        with self._lock:
            copied = [(key, self._copy(value)) for key, value in self._series.items()]
            if reader is None:
                known = len(copied)
            else:
                known = self._shown.get(reader, bisect_left(self._begun, now - NEW_FOR))
                self._shown[reader] = len(copied)
        values = [(dict(key), value if place < known else self._nothing()) for place, (key, value) in enumerate(copied)]
        return self._data(values, since, now)

    @abstractmethod
    def _nothing(self) -> _Value: ...

    @abstractmethod
    def _copy(self, value: _Value) -> _Value: ...

    @abstractmethod
    def _data(
        self, values: Sequence[tuple[dict[str, str], _Value]], since: int, now: int
    ) -> sdk.Sum | sdk.Histogram: ...


class Counter(_Instrument[float]):
    """A sum that only rises."""

    def add(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Add `amount`, 0 or more, to the series with these attributes."""
        key = _key(attributes)
        with self._lock:
            if key not in self._series:
                self._begun.append(self._clock())
            self._series[key] = self._series.get(key, 0) + amount

    def _nothing(self) -> float:
        return 0

    def _copy(self, value: float) -> float:
        return value

    def _data(self, values: Sequence[tuple[dict[str, str], float]], since: int, now: int) -> sdk.Sum:
        points = [sdk.NumberDataPoint(attributes, since, now, value) for attributes, value in values]
        return sdk.Sum(points, _CUMULATIVE, is_monotonic=True)


@dataclass(slots=True)
class _Buckets:
    """The values of a series, counted by bucket, with the newest exemplar of each bucket."""

    counts: list[int]
    sum: float = 0.0
    least: float = 0.0
    most: float = 0.0
    examples: dict[int, Exemplar] = field(default_factory=dict)


class Histogram(_Instrument[_Buckets]):
    """Values counted by bucket; `bounds` are the upper bounds of all buckets but the last."""

    def __init__(self, clock: Callable[[], int], bounds: Sequence[float]) -> None:
        super().__init__(clock)
        self._bounds = bounds

    def record(self, value: float, attributes: Mapping[str, str], example: ExemplarSpan | None = None) -> None:
        """Record a value in the series with these attributes."""
        key, bucket = _key(attributes), bisect_left(self._bounds, value)
        with self._lock:
            buckets = self._series.get(key)
            if buckets is None:
                self._begun.append(self._clock())
                buckets = self._series[key] = self._nothing()
                buckets.least = buckets.most = value
            buckets.counts[bucket] += 1
            buckets.sum += value
            buckets.least, buckets.most = min(buckets.least, value), max(buckets.most, value)
            if example is not None:
                buckets.examples[bucket] = Exemplar({}, value, self._clock(), example.span_id, example.trace_id)

    def _nothing(self) -> _Buckets:
        return _Buckets([0] * (len(self._bounds) + 1))

    def _copy(self, value: _Buckets) -> _Buckets:
        return replace(value, counts=[*value.counts], examples={**value.examples})

    def _data(self, values: Sequence[tuple[dict[str, str], _Buckets]], since: int, now: int) -> sdk.Histogram:
        points = [
            sdk.HistogramDataPoint(
                attributes=attributes,
                start_time_unix_nano=since,
                time_unix_nano=now,
                count=sum(each.counts),
                sum=each.sum,
                bucket_counts=each.counts,
                explicit_bounds=self._bounds,
                min=each.least,
                max=each.most,
                exemplars=[example for _, example in sorted(each.examples.items())],
            )
            for attributes, each in values
        ]
        return sdk.Histogram(points, _CUMULATIVE)


class _Observable:
    """A gauge that shows what `read` returns; a counter where the values only rise (`rises`)."""

    def __init__(self, name: str, read: Callable[[], Observations], rises: bool) -> None:
        self._name = name
        self._read = read
        self._rises = rises

    def has_new(self, reader: str) -> bool:
        """Return False: these series do not begin with 0."""
        return False

    def data(self, reader: str | None, since: int, now: int) -> sdk.Sum | sdk.Gauge:
        """Return the present values; none where `read` fails."""
        try:
            levels = {_key(attributes): value for value, attributes in self._read()}
        except Exception:
            _logger.exception("%s cannot be read", self._name)
            levels = {}
        began: Any = since if self._rises else None
        points = [sdk.NumberDataPoint(dict(key), began, now, value) for key, value in levels.items()]
        return sdk.Sum(points, _CUMULATIVE, is_monotonic=True) if self._rises else sdk.Gauge(points)


_Made = TypeVar("_Made", Counter, Histogram, _Observable)


class Meter:
    """Makes the instruments of a collector, and reads all of them. Thread-safe.

    `clock` gives nanoseconds since the Unix epoch. All data carries the `resource` and the `scope`; every series also
    has the attributes `whose`.
    """

    def __init__(
        self,
        resource: Resource,
        scope: InstrumentationScope,
        whose: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._whose = whose or {}
        self._clock = clock
        self._since = clock()
        self._instruments: list[tuple[tuple[str, str, str], Counter | Histogram | _Observable]] = []
        # One thread at a time asks the sources of observable instruments: some of them share what they have read.
        self._reading = Lock()

    def counter(self, name: str, unit: str, description: str) -> Counter:
        """Make a counter."""
        return self._add(name, unit, description, Counter(self._clock))

    def histogram(self, name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
        """Make a histogram with these bounds."""
        return self._add(name, unit, description, Histogram(self._clock, bounds))

    def observable(
        self, name: str, unit: str, description: str, read: Callable[[], Observations], *, rises: bool = False
    ) -> None:
        """Show what `read` returns at each scrape and push. Call it once for each name."""
        self._add(name, unit, description, _Observable(name, read, rises))

    def _add(self, name: str, unit: str, description: str, made: _Made) -> _Made:
        self._instruments.append(((name, description, unit), made))
        return made

    def has_new(self, reader: str) -> bool:
        """Return whether there is a series that the reader has not been shown."""
        return any(each.has_new(reader) for _, each in self._instruments)

    def read(self, reader: str | None) -> sdk.MetricsData:
        """Return the data for the reader; None looks without being remembered as a reader."""
        now = self._clock()
        with self._reading:
            read = [(about, each.data(reader, self._since, now)) for about, each in self._instruments]
        metrics = [sdk.Metric(*about, _with_attributes(data, self._whose)) for about, data in read if data.data_points]
        of_scope = sdk.ScopeMetrics(self._scope, metrics, schema_url="")
        return sdk.MetricsData([sdk.ResourceMetrics(self._resource, [of_scope], schema_url="")])


def _with_attributes(data: Any, added: Mapping[str, str]) -> Any:
    if not added:
        return data
    return replace(
        data, data_points=[replace(each, attributes={**each.attributes, **added}) for each in data.data_points]
    )


def _key(attributes: Mapping[str, str] | None) -> _Key:
    return tuple(sorted(attributes.items())) if attributes else ()
