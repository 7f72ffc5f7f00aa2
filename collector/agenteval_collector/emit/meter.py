"""The instruments of a collector: counters and histograms whose new series begin with 0, and observable instruments.

If a series appears with its first increment, `increase()` in Prometheus sees no value before it. It misses the first
burst of failures of a new version, which is the one that matters. So each reader (the scrape, the push) sees 0 once
before it sees more. Nothing that is recorded meanwhile is lost, and nothing waits. A reader that is itself new sees the
full value of series older than `NEW_FOR`: otherwise all that they ever counted would look like an increase.

The SDK's instruments cannot do that, and take ten times as long to record. Its data model is kept, so that its
exporters can encode and send the values.

All instruments share one budget of series, so that no number of agents, versions and tools makes a scrape too large to
answer. Series that nothing was recorded in for `IDLE_FOR` make room for new ones. If there is none, new series are
made of fewer attributes: their tools become `_other` first, then their versions, then their agents.
"""

import logging
import math
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock, RLock
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agenteval import semconv

_Key: TypeAlias = tuple[tuple[str, str], ...]
_Value = TypeVar("_Value")
_CUMULATIVE: Final = sdk.AggregationTemporality.CUMULATIVE
NEW_FOR: Final = 300 * 10**9
"""Age in nanoseconds up to which a series begins with 0 for a reader that has never read before."""
IDLE_FOR: Final = 3600 * 10**9
"""Time in nanoseconds after which a series in which nothing was recorded may make room for another."""
MAX_SERIES: Final = 20_000
OTHER: Final = "_other"
"""The value of an attribute for everything beyond a limit."""
_MERGED: Final = (
    (semconv.GEN_AI_TOOL_NAME,),
    (semconv.SERVICE_VERSION,),
    (semconv.GEN_AI_AGENT_NAME, semconv.GEN_AI_REQUEST_MODEL, semconv.SERVICE_NAME, semconv.DEPLOYMENT_ENVIRONMENT),
)
"""The attributes that become `_other` if series are short, first to last."""
_SHARES: Final = (0.8, 0.9, 0.95)
"""Shares of the budget: up to the first, series are made as they come; up to each next one, with one more of `_MERGED`
as `_other`. What is left is for series of all agents together."""
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
    """Return the span with these ids in hex; None if one of them is unknown."""
    return ExemplarSpan(int(trace_id, 16), int(span_id, 16)) if trace_id and span_id else None


class SeriesBudget:
    """The series of all instruments that share it, as Prometheus counts them: `limit` at most, but for a few that count
    all agents together. Thread-safe.

    `merged` is how many new series were made of fewer attributes, `dropped` how many idle ones made room.
    """

    def __init__(self, limit: int = MAX_SERIES) -> None:
        self._limit = limit
        self._instruments: list[_Instrument[Any]] = []
        self._lock = RLock()
        self._idle_from = 0
        self.used = 0
        self.merged = 0
        self.dropped = 0

    def add(self, instrument: "_Instrument[Any]") -> None:
        """Let an instrument share the budget."""
        with self._lock:
            self._instruments.append(instrument)

    def admit(self, size: int, merges: int, now: int) -> bool:
        """Return whether there is room for a series, with the first `merges` of `_MERGED` as `_other`; take it if so.

        Args:
            size: its number of lines on the page of Prometheus.
            now: nanoseconds since the Unix epoch.
        """
        with self._lock:
            room = self._limit * _SHARES[merges] if merges < len(_SHARES) else math.inf
            if self.used + size > room and now >= self._idle_from:
                self._drop_idle(now)
            if self.used + size > room:
                return False
            self.used += size
            self.merged += merges > 0
            return True

    def _drop_idle(self, now: int) -> None:
        oldest = now
        for instrument in self._instruments:
            dropped, rest = instrument.drop_idle(now - IDLE_FOR)
            self.used -= dropped * instrument.size
            self.dropped += dropped
            oldest = min(oldest, rest)
        # Until then there is none to be found.
        self._idle_from = oldest + IDLE_FOR


class _Series(Generic[_Value]):
    """One series: its values, when it began and was last recorded (ns), and its place by age."""

    __slots__ = ("begun", "number", "used", "value")

    def __init__(self, value: _Value, number: int, now: int) -> None:
        self.value = value
        self.number = number
        self.begun = self.used = now


class _Instrument(ABC, Generic[_Value]):
    """Values by their attributes. Recording takes a lock and does not check the attributes. Thread-safe."""

    size = 1
    """Lines of a series on the page of Prometheus."""

    def __init__(self, clock: Callable[[], int], budget: SeriesBudget) -> None:
        self._clock = clock
        self._budget = budget
        # One lock for all instruments of a budget: dropping idle series takes those of the others.
        self._lock = budget._lock
        self._series: dict[_Key, _Series[_Value]] = {}
        self._made = 0
        # By reader, how many series had been made when it last read.
        self._shown: dict[str, int] = {}
        budget.add(self)

    def has_new(self, reader: str) -> bool:
        """Return whether there is a series that the reader has not seen."""
        return self._shown.get(reader, 0) < self._made

    def data(self, reader: str | None, since: int, now: int) -> sdk.Sum | sdk.Histogram:
        """Return the values for the reader, from `since` to `now` (nanoseconds since the Unix epoch).

        Series that are new to the reader are 0. Reader None sees everything, and does not count as having seen it.
        """
        with self._lock:
            copied = [
                (key, series.number, series.begun, self._copy(series.value)) for key, series in self._series.items()
            ]
            last_number = None if reader is None else self._shown.get(reader)
            if reader is not None:
                self._shown[reader] = self._made
        values = [
            (dict(key), value if _is_known(reader, last_number, number, begun, now) else self._nothing())
            for key, number, begun, value in copied
        ]
        return self._data(values, since, now)

    def drop_idle(self, before: int) -> tuple[int, int]:
        """Drop the series with attributes in which nothing was recorded since `before` (ns). Return how many they were,
        and when the first of the rest was last recorded in."""
        with self._lock:
            idle = [key for key, series in self._series.items() if key and series.used < before]
            for key in idle:
                del self._series[key]
            return len(idle), min((series.used for series in self._series.values()), default=before + IDLE_FOR)

    def _find(self, attributes: Mapping[str, str] | None) -> _Series[_Value]:
        """Return the series with these attributes, or with fewer if the budget has no room. The caller has the lock."""
        now = self._clock()
        key = _key(attributes)
        series = self._series.get(key)
        merges = 0
        while series is None:
            if self._budget.admit(self.size, merges, now):
                self._made += 1
                series = self._series[key] = _Series(self._nothing(), self._made, now)
            else:
                merges += 1
                key = _merged(key, merges)
                series = self._series.get(key)
        series.used = now
        return series

    @abstractmethod
    def _nothing(self) -> _Value: ...

    @abstractmethod
    def _copy(self, value: _Value) -> _Value: ...

    @abstractmethod
    def _data(
        self, values: Sequence[tuple[dict[str, str], _Value]], since: int, now: int
    ) -> sdk.Sum | sdk.Histogram: ...


def _is_known(reader: str | None, last_number: int | None, number: int, begun: int, now: int) -> bool:
    """Return whether a reader sees the value of a series: all but 0 for one that began since it last read."""
    if reader is None:
        return True
    return begun < now - NEW_FOR if last_number is None else number <= last_number


def _merged(key: _Key, merges: int) -> _Key:
    others = {name for names in _MERGED[:merges] for name in names}
    return tuple((name, OTHER if name in others else value) for name, value in key)


class Counter(_Instrument[float]):
    """A sum that only rises."""

    def add(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Add `amount`, 0 or more, to the series with these attributes."""
        with self._lock:
            self._find(attributes).value += amount

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

    def __init__(self, clock: Callable[[], int], budget: SeriesBudget, bounds: Sequence[float]) -> None:
        super().__init__(clock, budget)
        self._bounds = bounds
        # A bucket more than bounds, the sum and the count.
        self.size = len(bounds) + 3

    def record(self, value: float, attributes: Mapping[str, str], example: ExemplarSpan | None = None) -> None:
        """Record a value in the series with these attributes."""
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            buckets = self._find(attributes).value
            if not any(buckets.counts):
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
                count=sum(value.counts),
                sum=value.sum,
                bucket_counts=value.counts,
                explicit_bounds=self._bounds,
                min=value.least,
                max=value.most,
                exemplars=[example for _, example in sorted(value.examples.items())],
            )
            for attributes, value in values
        ]
        return sdk.Histogram(points, _CUMULATIVE)


class _Observable:
    """A gauge that shows what `read` returns; a counter if the values only rise (`rises`)."""

    def __init__(self, name: str, read: Callable[[], Observations], rises: bool) -> None:
        self._name = name
        self._read = read
        self._rises = rises

    def has_new(self, reader: str) -> bool:
        """Return False: these series do not begin with 0."""
        return False

    def data(self, reader: str | None, since: int, now: int) -> sdk.Sum | sdk.Gauge:
        """Return the present values; none if `read` fails."""
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
        budget: SeriesBudget | None = None,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._whose = whose or {}
        self._clock = clock
        self._since = clock()
        self._budget = budget or SeriesBudget()
        self._instruments: list[tuple[tuple[str, str, str], Counter | Histogram | _Observable]] = []
        # One thread at a time asks the sources of observable instruments: some of them share what they have read.
        self._reading = Lock()

    def counter(self, name: str, unit: str, description: str) -> Counter:
        """Make a counter."""
        return self._add(name, unit, description, Counter(self._clock, self._budget))

    def histogram(self, name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
        """Make a histogram with these bounds."""
        return self._add(name, unit, description, Histogram(self._clock, self._budget, bounds))

    def observable(
        self, name: str, unit: str, description: str, read: Callable[[], Observations], *, rises: bool = False
    ) -> None:
        """Show what `read` returns at each scrape and push. Call it once for each name."""
        self._add(name, unit, description, _Observable(name, read, rises))

    def _add(self, name: str, unit: str, description: str, instrument: _Made) -> _Made:
        self._instruments.append(((name, description, unit), instrument))
        return instrument

    def has_new(self, reader: str) -> bool:
        """Return whether there is a series that the reader has not been shown."""
        return any(instrument.has_new(reader) for _, instrument in self._instruments)

    def read(self, reader: str | None) -> sdk.MetricsData:
        """Return the data for the reader; None looks without being remembered as a reader."""
        now = self._clock()
        with self._reading:
            read = [(about, instrument.data(reader, self._since, now)) for about, instrument in self._instruments]
        metrics = [sdk.Metric(*about, _with_attributes(data, self._whose)) for about, data in read if data.data_points]
        of_scope = sdk.ScopeMetrics(self._scope, metrics, schema_url="")
        return sdk.MetricsData([sdk.ResourceMetrics(self._resource, [of_scope], schema_url="")])


def _with_attributes(data: Any, added: Mapping[str, str]) -> Any:
    if not added:
        return data
    return replace(
        data, data_points=[replace(point, attributes={**point.attributes, **added}) for point in data.data_points]
    )


def _key(attributes: Mapping[str, str] | None) -> _Key:
    return tuple(sorted(attributes.items())) if attributes else ()
