"""All that the collector emits, built in one place: instruments, the Prometheus page, and OTLP push."""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Final

from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from agenteval_collector.emit.agents import AgentInstruments
from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.emit.event_push import EVENTS, EventPush
from agenteval_collector.emit.findings import FindingInstruments
from agenteval_collector.emit.instruments import EvaluationInstruments
from agenteval_collector.emit.judge import JudgeInstruments
from agenteval_collector.emit.labels import IdentityLabels, tenant_attributes
from agenteval_collector.emit.metric_push import MetricPush
from agenteval_collector.emit.ports import Outbox, Push
from agenteval_collector.emit.problems import show_problems
from agenteval_collector.emit.scrape import SCRAPER_HEADER, Scrape, page
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.emit.totals import Totals
from agenteval_collector.emit.versions import VersionGauges
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.problems.problem import ProblemCount

_SCOPE: Final = "agenteval_collector"
_SERVICE: Final = "otel-agenteval-collector"
_SCRAPE: Final = "scrape"
_SCRAPE_OF_ALL: Final = "scrape of all tenants"

_SERIES_PER_IDENTITY: Final = 600
"""More than all evaluators with their methods, statuses, labels and parts can make of one identity."""

_logger = logging.getLogger(__name__)


class TelemetryOutput:
    """The collector's instruments and events, and the ways they leave.

    `version` is the collector's, `instance_id` tells it from other collectors at one backend. Without `push` nothing is
    pushed; its events are those of the `outbox`, and leave while the process `is_on_duty`. All series of a
    `tenant` have its name. The environment has no say: `OTEL_*` variables on this machine are meant for the agents, and
    might carry another backend's key.
    """

    def __init__(
        self,
        *,
        version: str,
        instance_id: str,
        tenant: str = DEFAULT_TENANT,
        push: PushTarget | None = None,
        outbox: Outbox | None = None,
        is_on_duty: Callable[[], bool] = lambda: True,
        labels: IdentityLabels | None = None,
    ) -> None:
        labels = self._labels = labels or IdentityLabels()
        resource = Resource({"service.name": _SERVICE, "service.version": version, "service.instance.id": instance_id})
        totals = self._totals = Totals(whose=tenant_attributes(tenant))
        self._scrape = Scrape(totals)
        with _without_otel_environment():
            readers: list[MetricReader] = [self._scrape]
            metric_push = MetricPush(push, totals) if push else None
            if metric_push:
                readers.append(metric_push)
            self._meters = MeterProvider(
                readers,
                resource,
                exemplar_filter=AlwaysOffExemplarFilter(),
                shutdown_on_exit=False,
                # Past its limit, 2000 by default, the SDK merges all further series into one. The labels are the
                # bound here, and this is above whatever they let through.
                views=[
                    View(
                        instrument_name="*", aggregation_cardinality_limit=labels.max_identities * _SERIES_PER_IDENTITY
                    )
                ],
            )
            meter = self._meter = self._meters.get_meter(_SCOPE, version)
            self.evaluations = EvaluationInstruments(meter, totals, labels)
            self.findings = FindingInstruments(meter, totals, labels)
            self.agents = AgentInstruments(totals, labels)
            self.versions = VersionGauges(meter, labels)
            self.collector = CollectorTelemetry(meter, totals, version)
            pushes: dict[str, Push] = {"metrics": metric_push} if metric_push else {}
            self._events: EventPush | None = None
            if push and push.events and outbox:
                self._events = pushes["logs"] = EventPush(
                    push.event_exporter(),
                    outbox,
                    self.collector,
                    resource=resource,
                    scope=InstrumentationScope(_SCOPE, version),
                    is_on_duty=is_on_duty,
                )
                self.collector.observe_queues({EVENTS: self._events})
                self._events.start()
            if pushes:
                self.collector.observe_pushes(pushes)

    def observe_problems(self, counts: Callable[[], Sequence[ProblemCount]]) -> None:
        """Show the number of problems from now on. To be called once."""
        show_problems(self._meter, self._labels, counts)

    def judge(self, models: Collection[str]) -> JudgeInstruments:
        """Make the instruments of a judge that may be asked for these models; only a collector with one has them. To be
        called once."""
        return JudgeInstruments(self._meter, self._totals, models)

    def render(self, headers: Mapping[str, str], others: Iterable["TelemetryOutput"] = ()) -> tuple[bytes, str]:
        """Return the page for Prometheus and its content type, for a request with these headers. Thread-safe.

        Those of other tenants are shown, too. Who scrapes them so is another reader than one who scrapes them alone.
        """
        reads = SCRAPER_HEADER in headers
        collected = [self._scrape.read(_SCRAPE if reads else None)]
        collected += [each._scrape.read(_SCRAPE_OF_ALL if reads else None) for each in others]
        return page(collected, headers)

    def shutdown(self, timeout: float) -> None:
        """Push what waits, for at most `timeout` seconds, then stop; to be called once."""
        # The SDK may wait longer for a dead backend, so it is waited for from outside.
        metrics = Thread(target=self._stop_metrics, args=(timeout,), name="agenteval-stop-metrics", daemon=True)
        metrics.start()
        deadline = time.monotonic() + timeout
        if self._events is not None:
            self._events.shutdown(timeout)
        metrics.join(max(0.0, deadline - time.monotonic()))
        if metrics.is_alive():
            _logger.warning("the last metrics did not reach the export endpoint in %g s", timeout)

    def _stop_metrics(self, timeout: float) -> None:
        try:
            self._meters.shutdown(timeout * 1000)
        except Exception:
            _logger.exception("stopping the export of metrics failed")


@contextmanager
def _without_otel_environment() -> Iterator[None]:
    """Hide `OTEL_*` from the SDK, which reads them in its constructors, even where arguments are given.

    The variables are process-wide: to be used at start, before other threads read them.
    """
    hidden = {name: value for name, value in os.environ.items() if "OTEL_" in name}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)
