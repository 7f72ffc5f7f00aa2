"""The page that Prometheus scrapes, as text or as OpenMetrics, which has examples with trace ids.

It shows the instruments of one tenant, or of several: then each family stands once, with the series of all of them.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from threading import Lock
from typing import Any, Final

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
    NumberDataPoint,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from prometheus_client import exposition
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Exemplar as PrometheusExemplar
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from agenteval_collector.emit.totals import Totals

SCRAPER_HEADER: Final = "x-prometheus-scrape-timeout-seconds"
"""A header of every scrape by Prometheus and its kind. Who asks without it only looks."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9]+")
_SUFFIXES: Final = {"s": "seconds"}


class Scrape(MetricReader):
    """Reads the instruments whenever it is asked to. Thread-safe."""

    def __init__(self, totals: Totals) -> None:
        super().__init__()
        self._totals = totals
        self._lock = Lock()
        self._collected: MetricsData | None = None

    def read(self, reader: str | None) -> MetricsData:
        """Return what is shown to the reader now; None only looks (`Totals`)."""
        with self._lock:
            self.collect()
            collected = self._collected
        assert collected is not None, "the collector's build is always shown"
        return self._totals.added_to(collected, reader)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        self._collected = metrics_data

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Nothing has to be stopped."""


def page(collected: Sequence[MetricsData], headers: Mapping[str, str]) -> tuple[bytes, str]:
    """Return the page with all of this, under the first one's resource, and its content type, for a request with these
    headers, by lower-case names."""
    encode, content_type = exposition.choose_encoder(headers.get("accept", ""))
    return encode(_Page([*_families(collected)])), content_type


class _Page(Collector):
    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _families(collected: Sequence[MetricsData]) -> Iterator[Family]:
    resources = [of_resource for each in collected for of_resource in each.resource_metrics]
    yield InfoMetricFamily("target", "Target metadata", _labels_of_target(resources[0].resource))
    metrics: dict[str, list[Metric]] = {}
    for metric in (metric for each in resources for of_scope in each.scope_metrics for metric in of_scope.metrics):
        metrics.setdefault(metric.name, []).append(metric)
    yield from map(_family, map(_together, metrics.values()))


def _together(metrics: Sequence[Metric]) -> Metric:
    """Return one instrument with the series that it has for each tenant."""
    data: Any = metrics[0].data
    points = [point for metric in metrics for point in metric.data.data_points]
    return replace(metrics[0], data=replace(data, data_points=points))


def _labels_of_target(resource: Resource) -> dict[str, str]:
    return {_label(name): str(value) for name, value in resource.attributes.items()}


def _family(metric: Metric) -> Family:
    """Return the series of an instrument. All of them have all labels; an empty one is none to Prometheus."""
    name, unit = _NOT_IN_NAMES.sub("_", metric.name), _SUFFIXES.get(metric.unit or "", "")
    said = metric.description or ""
    keys = sorted({key for point in metric.data.data_points for key in point.attributes or ()})
    labels = [*map(_label, keys)]
    family: Family
    if isinstance(metric.data, Histogram):
        family = histogram = HistogramMetricFamily(name, said, labels=labels, unit=unit)
        for counted in metric.data.data_points:
            histogram.add_metric(_values(counted, keys), [*_buckets(counted)], counted.sum)
    elif isinstance(metric.data, Sum):
        family = counter = CounterMetricFamily(name, said, labels=labels, unit=unit)
        for point in metric.data.data_points:
            counter.add_metric(_values(point, keys), point.value)
    else:
        assert isinstance(metric.data, Gauge), "no instrument has another kind of data"
        family = gauge = GaugeMetricFamily(name, said, labels=labels, unit=unit)
        for point in metric.data.data_points:
            gauge.add_metric(_values(point, keys), point.value)
    return family


def _values(point: NumberDataPoint | HistogramDataPoint, keys: Sequence[str]) -> list[str]:
    attributes = point.attributes or {}
    return [str(attributes.get(key, "")) for key in keys]


def _buckets(point: HistogramDataPoint) -> Iterator[tuple[str, float] | tuple[str, float, PrometheusExemplar]]:
    """Yield the buckets: upper bound, count of all below it, and an example of what is in it, if there is one."""
    bounds = [*map(str, point.explicit_bounds), "+Inf"]
    examples = {bisect_left(point.explicit_bounds, each.value): each for each in point.exemplars}
    for bucket, count in enumerate(accumulate(point.bucket_counts)):
        if bucket in examples:
            yield bounds[bucket], count, _exemplar(examples[bucket])
        else:
            yield bounds[bucket], count


def _exemplar(example: Exemplar) -> PrometheusExemplar:
    ids = {"trace_id": f"{example.trace_id:032x}", "span_id": f"{example.span_id:016x}"}
    return PrometheusExemplar(ids, example.value, example.time_unix_nano / 1e9)


def _label(name: str) -> str:
    return _NOT_IN_LABELS.sub("_", name)
