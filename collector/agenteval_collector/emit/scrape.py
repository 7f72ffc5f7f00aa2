"""The page that Prometheus scrapes, as text or as OpenMetrics, which has exemplars with trace ids.

It shows the instruments of one tenant, or of several: then each family has the series of all of them.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics import export as sdk
from prometheus_client import core, exposition
from prometheus_client.registry import Collector

SCRAPER_HEADER: Final = "x-prometheus-scrape-timeout-seconds"
"""A header that Prometheus and compatible scrapers send. A request without it only looks, and is not remembered as a
reader."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9]+")
_SUFFIXES: Final = {"s": "seconds", "By": "bytes"}


def page(collected: Sequence[sdk.MetricsData], headers: Mapping[str, str]) -> tuple[bytes, str]:
    """Return the page and its content type, for a request with these headers (lower-case names). The first resource
    describes the target."""
    encode, content_type = exposition.choose_encoder(headers.get("accept", ""))
    return encode(_MetricsPage([*_families(collected)])), content_type


class _MetricsPage(Collector):
    def __init__(self, families: Sequence[core.Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[core.Metric]:
        return self._families


def _families(collected: Sequence[sdk.MetricsData]) -> Iterator[core.Metric]:
    resources = [of_resource for data in collected for of_resource in data.resource_metrics]
    yield core.InfoMetricFamily(
        "target",
        "Target metadata",
        {_label(name): str(value) for name, value in resources[0].resource.attributes.items()},
    )
    metrics: dict[str, list[sdk.Metric]] = {}
    for metric in (
        metric for resource in resources for of_scope in resource.scope_metrics for metric in of_scope.metrics
    ):
        metrics.setdefault(metric.name, []).append(metric)
    yield from map(_family, map(_together, metrics.values()))


def _together(metrics: Sequence[sdk.Metric]) -> sdk.Metric:
    """Merge the series of one instrument from all tenants."""
    data: Any = metrics[0].data
    points = [point for metric in metrics for point in metric.data.data_points]
    return replace(metrics[0], data=replace(data, data_points=points))


def _family(metric: sdk.Metric) -> core.Metric:
    """Return an instrument as a family. All its series have all labels: an empty label means none to Prometheus."""
    name, unit = _NOT_IN_NAMES.sub("_", metric.name), _SUFFIXES.get(metric.unit or "", "")
    help_text = metric.description or ""
    keys = sorted({key for point in metric.data.data_points for key in point.attributes or ()})
    labels = [*map(_label, keys)]
    if isinstance(metric.data, sdk.Histogram):
        histogram = core.HistogramMetricFamily(name, help_text, labels=labels, unit=unit)
        for counted in metric.data.data_points:
            histogram.add_metric(_values(counted, keys), [*_buckets(counted)], counted.sum)
        return histogram
    assert isinstance(metric.data, sdk.Sum | sdk.Gauge), "no instrument has another kind of data"
    make = core.CounterMetricFamily if isinstance(metric.data, sdk.Sum) else core.GaugeMetricFamily
    family = make(name, help_text, labels=labels, unit=unit)
    for point in metric.data.data_points:
        family.add_metric(_values(point, keys), point.value)
    return family


def _values(point: sdk.NumberDataPoint | sdk.HistogramDataPoint, keys: Sequence[str]) -> list[str]:
    attributes = point.attributes or {}
    return [str(attributes.get(key, "")) for key in keys]


def _buckets(point: sdk.HistogramDataPoint) -> Iterator[tuple[str, float] | tuple[str, float, core.Exemplar]]:
    """Yield each bucket: its upper bound, the cumulative count, and an exemplar if there is one."""
    bounds = [*map(str, point.explicit_bounds), "+Inf"]
    examples = {bisect_left(point.explicit_bounds, exemplar.value): exemplar for exemplar in point.exemplars}
    for bucket, count in enumerate(accumulate(point.bucket_counts)):
        if bucket in examples:
            yield bounds[bucket], count, _exemplar(examples[bucket])
        else:
            yield bounds[bucket], count


def _exemplar(example: Exemplar) -> core.Exemplar:
    ids = {"trace_id": f"{example.trace_id:032x}", "span_id": f"{example.span_id:016x}"}
    return core.Exemplar(ids, example.value, example.time_unix_nano / 1e9)


def _label(name: str) -> str:
    return _NOT_IN_LABELS.sub("_", name)
