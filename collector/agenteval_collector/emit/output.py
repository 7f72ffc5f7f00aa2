"""All telemetry that the collector emits, built in one place: instruments, the Prometheus page, and the OTLP push."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from agenteval_collector.emit.agents import AgentInstruments
from agenteval_collector.emit.alarms import AlarmGauges
from agenteval_collector.emit.attributes import BoundedIdentities, tenant_attributes
from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.emit.instruments import EvaluationInstruments, FindingInstruments
from agenteval_collector.emit.judge import JudgeInstruments
from agenteval_collector.emit.meter import MAX_SERIES, Meter, SeriesBudget
from agenteval_collector.emit.push import EVENTS, EventPush, MetricPush
from agenteval_collector.emit.scrape import SCRAPER_HEADER, page
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.emit.versions import VersionGauges
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.stores.outbox import OutboxStore

_SCOPE: Final = "agenteval_collector"
_SERVICE: Final = "otel-agenteval-collector"
_SCRAPE: Final = "scrape"
_SCRAPE_OF_ALL: Final = "scrape of all tenants"


class TelemetryOutput:
    """The collector's instruments and events, and the ways they leave it.

    `version` is the collector's; `instance_id` tells it from other collectors at the same backend. Without `push`
    nothing is pushed. Pushed events come from the `outbox`, and only while this process `is_on_duty`. All series carry
    the name of the `tenant`; its counters and histograms have `max_series`. `OTEL_*` variables are ignored: on this
    machine they are meant for agents, and might carry another backend's key.
    """

    def __init__(
        self,
        *,
        version: str,
        instance_id: str,
        tenant: str = DEFAULT_TENANT,
        push: PushTarget | None = None,
        outbox: OutboxStore | None = None,
        is_on_duty: Callable[[], bool],
        identities: BoundedIdentities | None = None,
        max_series: int = MAX_SERIES,
    ) -> None:
        identities = identities or BoundedIdentities()
        resource = Resource({"service.name": _SERVICE, "service.version": version, "service.instance.id": instance_id})
        scope = InstrumentationScope(_SCOPE, version)
        budget = SeriesBudget(max_series)
        meter = self._meter = Meter(resource, scope, tenant_attributes(tenant), budget=budget)
        self.evaluations = EvaluationInstruments(meter, identities)
        self.findings = FindingInstruments(meter, identities)
        self.agents = AgentInstruments(meter, identities)
        self.versions = VersionGauges(meter, identities)
        self.alarms = AlarmGauges(meter)
        self.own_work = CollectorTelemetry(meter, version)
        self.own_work.observe_series(budget)
        self._pushes: dict[str, MetricPush | EventPush] = {}
        if push is None:
            return
        with _without_otel_environment():
            self._pushes["metrics"] = MetricPush(push.metric_exporter(), meter, push.interval)
            if push.events and outbox:
                self._pushes["logs"] = events = EventPush(
                    push.event_exporter(), outbox, self.own_work, resource=resource, scope=scope, is_on_duty=is_on_duty
                )
                self.own_work.observe_queues({EVENTS: events})
        self.own_work.observe_pushes(lambda: {signal: push.failures for signal, push in self._pushes.items()})
        for pusher in self._pushes.values():
            pusher.start()

    def judge(self, models: Collection[str]) -> JudgeInstruments:
        """Make the instruments of the judge, which may use these models. Call it once, if there is a judge."""
        return JudgeInstruments(self._meter, models)

    def render(self, headers: Mapping[str, str], others: Iterable["TelemetryOutput"] = ()) -> tuple[bytes, str]:
        """Return the page for Prometheus and its content type, for a request with these headers. Thread-safe.

        The page also shows `others`, the outputs of other tenants. A scraper that reads all tenants is another reader
        than one that reads this tenant alone.
        """
        reads = SCRAPER_HEADER in headers
        collected = [self._meter.read(_SCRAPE if reads else None)]
        collected += [other._meter.read(_SCRAPE_OF_ALL if reads else None) for other in others]
        return page(collected, headers)

    def shutdown(self, timeout: float) -> None:
        """Push what waits, for at most `timeout` seconds, then stop."""
        deadline = time.monotonic() + timeout
        # End all of them first, so that they send their last data at the same time.
        for push in self._pushes.values():
            push.end()
        for push in self._pushes.values():
            push.shutdown(max(0.0, deadline - time.monotonic()))


@contextmanager
def _without_otel_environment() -> Iterator[None]:
    """Hide `OTEL_*` variables from the SDK, whose constructors read them even if arguments are given.

    Variables belong to the whole process: use it at start, before other threads read them.
    """
    hidden = {name: value for name, value in os.environ.items() if "OTEL_" in name}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)
