"""Counters and histograms whose new series begin with 0, so that what comes first is an increase.

A series that appears with its first increment has no value before it: `increase()` in Prometheus does not see the first
burst of failures of a new version, which is the one that matters. So a series shows 0 to each reader (the scrape, the
push) once before it shows more. What is recorded meanwhile is kept; nothing is lost, nothing waits. To a reader that is
new itself, old series show what they have: else all that they ever counted would be an increase.

The SDK's instruments cannot do that, and take ten times as long to record. Its data model is kept: what is read here
leaves with what the SDK collects.
"""

import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData

_Key: TypeAlias = tuple[tuple[str, str], ...]
_Value = TypeVar("_Value")
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
NEW_FOR: Final = 300 * 10**9
"""Nanoseconds for which a series begins with 0 to a reader that has never read before."""


class Example(NamedTuple):
    """The span that a recorded value is about."""

    trace_id: int
    span_id: int


def example_of(trace_id: str | None, span_id: str | None) -> Example | None:
    """Return the span with these ids, in hex, as an example. None where one of them is not known."""
    return Example(int(trace_id, 16), int(span_id, 16)) if trace_id and span_id else None


class _Instrument(ABC, Generic[_Value]):
    """Series by their attributes. Recording takes a lock and no look at the attributes, so that they must be few and
    bounded. Thread-safe."""

    def __init__(self, name: str, unit: str, description: str, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._name = name
        self._unit = unit
        self._description = description
        self._lock = Lock()
        self._series: dict[_Key, _Value] = {}
        # When each of them began, in that order.
        self._begun: list[int] = []
        # How many of the series, in the order in which they came, each reader has been shown.
        self._shown: dict[str, int] = {}

    def has_new(self, reader: str) -> bool:
        """Return whether a series has not been shown to the reader."""
        return self._shown.get(reader, 0) < len(self._series)

    def metric(self, reader: str | None, since: int, now: int) -> Metric:
        """Return what the reader is shown of the time from `since` to `now`, in nanoseconds since the Unix epoch. None
        only looks: it is shown everything, and no reader misses a 0 for that."""
        with self._lock:
            copied = [(key, self._copy(value)) for key, value in self._series.items()]
            if reader is None:
                known = len(copied)
            else:
                known = self._shown.get(reader, bisect_left(self._begun, now - NEW_FOR))
                self._shown[reader] = len(copied)
        values = [(dict(key), value if place < known else self._nothing()) for place, (key, value) in enumerate(copied)]
        return Metric(self._name, self._description, self._unit, self._data(values, since, now))

    @abstractmethod
    def _nothing(self) -> _Value: ...

    @abstractmethod
    def _copy(self, value: _Value) -> _Value: ...

    @abstractmethod
    def _data(self, values: Sequence[tuple[dict[str, str], _Value]], since: int, now: int) -> Sum | HistogramData: ...


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

    def _data(self, values: Sequence[tuple[dict[str, str], float]], since: int, now: int) -> Sum:
        points = [NumberDataPoint(attributes, since, now, value) for attributes, value in values]
        return Sum(points, _CUMULATIVE, is_monotonic=True)


@dataclass(slots=True)
class _Buckets:
    """The values of a series, counted by bucket, with the newest example of each bucket."""

    counts: list[int]
    sum: float = 0.0
    least: float = 0.0
    most: float = 0.0
    examples: dict[int, Exemplar] = field(default_factory=dict)


class Histogram(_Instrument[_Buckets]):
    """Counts of values by bucket; `bounds` are the upper bounds of all buckets but the last one."""

    def __init__(
        self, name: str, unit: str, description: str, clock: Callable[[], int], bounds: Sequence[float]
    ) -> None:
        super().__init__(name, unit, description, clock)
        self._bounds = bounds

    def record(self, value: float, attributes: Mapping[str, str], example: Example | None = None) -> None:
        """Add a value to the series with these attributes."""
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
                buckets.examples[bucket] = Exemplar({}, value, time.time_ns(), example.span_id, example.trace_id)

    def _nothing(self) -> _Buckets:
        return _Buckets([0] * (len(self._bounds) + 1))

    def _copy(self, value: _Buckets) -> _Buckets:
        return replace(value, counts=[*value.counts], examples={**value.examples})

    def _data(self, values: Sequence[tuple[dict[str, str], _Buckets]], since: int, now: int) -> HistogramData:
        points = [
            HistogramDataPoint(
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
        return HistogramData(points, _CUMULATIVE)


class Totals:
    """The counters and histograms of a collector. `clock` gives the time in nanoseconds since the Unix epoch. All that
    leaves has the attributes `whose`."""

    def __init__(self, clock: Callable[[], int] = time.time_ns, whose: Mapping[str, str] | None = None) -> None:
        self._clock = clock
        self._whose = whose or {}
        self._since = clock()
        self._instruments: list[Counter | Histogram] = []

    def counter(self, name: str, *, unit: str, description: str) -> Counter:
        """Make a counter."""
        made = Counter(name, unit, description, self._clock)
        self._instruments.append(made)
        return made

    def histogram(self, name: str, *, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
        """Make a histogram with these bounds."""
        made = Histogram(name, unit, description, self._clock, bounds)
        self._instruments.append(made)
        return made

    def has_new(self, reader: str) -> bool:
        """Return whether there is a series that the reader has not been shown."""
        return any(each.has_new(reader) for each in self._instruments)

    def added_to(self, collected: MetricsData, reader: str | None) -> MetricsData:
        """Return what the SDK has collected with all that is to be shown to the reader now."""
        now = self._clock()
        counted = [each.metric(reader, self._since, now) for each in self._instruments]
        [of_resource] = collected.resource_metrics
        [of_scope] = of_resource.scope_metrics
        metrics = [*of_scope.metrics, *(each for each in counted if each.data.data_points)]
        if self._whose:
            metrics = [_with_attributes(each, self._whose) for each in metrics]
        return MetricsData([replace(of_resource, scope_metrics=[replace(of_scope, metrics=metrics)])])


def _with_attributes(metric: Metric, added: Mapping[str, str]) -> Metric:
    data: Any = metric.data
    points = [replace(point, attributes={**(point.attributes or {}), **added}) for point in data.data_points]
    return replace(metric, data=replace(data, data_points=points))


def _key(attributes: Mapping[str, str] | None) -> _Key:
    return tuple(sorted(attributes.items())) if attributes else ()
