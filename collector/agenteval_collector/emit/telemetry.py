"""All that the collector emits, built in one place: instruments, the Prometheus page, and OTLP push."""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from agenteval_collector.emit.agents import AgentInstruments
from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.emit.counter import read_by
from agenteval_collector.emit.events import EvaluationEvents
from agenteval_collector.emit.findings import FindingInstruments
from agenteval_collector.emit.instruments import EvaluationInstruments
from agenteval_collector.emit.judge import JudgeInstruments
from agenteval_collector.emit.labels import IdentityLabels
from agenteval_collector.emit.ports import ExportedFindings
from agenteval_collector.emit.problems import show_problems
from agenteval_collector.emit.push import EventPush, MetricPush, PushTarget
from agenteval_collector.emit.versions import VersionGauges
from agenteval_collector.problems.problem import ProblemCount

_SCOPE: Final = "agenteval_collector"
_SERVICE: Final = "otel-agenteval-collector"

_SERIES_PER_IDENTITY: Final = 600
"""More than all evaluators with their methods, statuses, labels and parts can make of one identity."""

_logger = logging.getLogger(__name__)


class TelemetryOutput:
    """The collector's instruments and events, and the ways they leave.

    `version` is the collector's, `instance_id` tells it from other collectors at one backend. Without `push`
    nothing is pushed and `events` is None; `exported` keeps the findings whose events were taken. The environment
    has no say: `OTEL_*` variables on this machine are meant for the agents, and might carry another backend's key.
    """

    def __init__(
        self,
        *,
        version: str,
        instance_id: str,
        push: PushTarget | None = None,
        exported: ExportedFindings | None = None,
        labels: IdentityLabels | None = None,
    ) -> None:
        labels = self._labels = labels or IdentityLabels()
        resource = Resource(
            {
                "service.name": _SERVICE,
                "service.version": version,
                "service.instance.id": instance_id,
            }
        )
        self._registry = CollectorRegistry()
        # The exporter hands collected data to its scrape through a queue that two scrapes would mix up.
        self._scrape = Lock()
        with _without_otel_environment():
            readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)]
            metric_push = MetricPush(push) if push else None
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
            self.evaluations = EvaluationInstruments(meter, labels)
            self.findings = FindingInstruments(meter, labels)
            self.agents = AgentInstruments(meter, labels)
            self.versions = VersionGauges(meter, labels)
            self.collector = CollectorTelemetry(meter, version)
            self._loggers = LoggerProvider(resource, shutdown_on_exit=False)
            self.events: EvaluationEvents | None = None
            self._event_push: EventPush | None = None
            if push and metric_push:
                event_push = self._event_push = EventPush(push, self.collector, exported)
                self._loggers.add_log_record_processor(event_push)
                self.events = EvaluationEvents(self._loggers.get_logger(_SCOPE, version))
                self.collector.observe_pushes({"metrics": metric_push, "logs": event_push})

    def observe_problems(self, counts: Callable[[], Sequence[ProblemCount]]) -> None:
        """Show the number of problems from now on. To be called once."""
        show_problems(self._meter, self._labels, counts)

    def judge(self, models: Collection[str]) -> JudgeInstruments:
        """Make the instruments of a judge that may be asked for these models; only a collector with one has them. To be
        called once."""
        return JudgeInstruments(self._meter, models)

    def render(self) -> tuple[bytes, str]:
        """Return the Prometheus page and its content type. Thread-safe."""
        with self._scrape, read_by("scrape"):
            return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def shutdown(self, timeout: float) -> None:
        """Push what waits, for at most `timeout` seconds, then stop; to be called once."""
        stops: dict[str, Callable[[], object]] = {
            "metrics": lambda: self._meters.shutdown(timeout * 1000),
            "events": self._loggers.shutdown,
        }
        # The SDK's log processor would wait 30 s for a dead backend, so it is waited for from outside.
        threads = {
            what: Thread(target=_stop, args=(what, stop), name=f"agenteval-stop-{what}", daemon=True)
            for what, stop in stops.items()
        }
        for thread in threads.values():
            thread.start()
        deadline = time.monotonic() + timeout
        for what, thread in threads.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                _logger.warning("the last %s did not reach the export endpoint in %g s", what, timeout)
        if self._event_push and threads["events"].is_alive():
            self._event_push.abandon()


def _stop(what: str, stop: Callable[[], object]) -> None:
    try:
        stop()
    except Exception:
        _logger.exception("stopping the export of %s failed", what)


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
