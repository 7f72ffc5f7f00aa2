"""The ways by which news leave: instruments, events, and the feed of watchers."""

import socket
import uuid
from importlib.metadata import version
from pathlib import Path

from agenteval_collector.config import ConfigError, Settings
from agenteval_collector.emit.fanout import Fanout
from agenteval_collector.emit.feed import MAX_ALARMS, Feed
from agenteval_collector.emit.participants import Participants
from agenteval_collector.emit.push import PushTarget
from agenteval_collector.emit.telemetry import TelemetryOutput
from agenteval_collector.findings.loops import LiveLoops, OpenSpans
from agenteval_collector.model.news import News, NewsSink
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores import Store
from agenteval_collector.wiring.servers import WATCH_THREADS

EXPORTED_AGAIN = 24 * 3600 * 1_000_000_000
"""Nanoseconds for which a finding's event that has not left is kept for the next start."""


def make_output(settings: Settings, store: Store) -> TelemetryOutput:
    """Make the instruments, and their push where one is set."""
    return TelemetryOutput(
        version=version("otel-agenteval"),
        instance_id=instance_id(settings.data_dir),
        push=_push_target(settings),
        exported=store.findings,
    )


def make_feed(output: TelemetryOutput, store: Store, live: LiveLoops, open_spans: OpenSpans, clock: Clock) -> Feed:
    """Make the feed for all who watch sessions that their processes take part in."""
    participants = Participants(store, live, open_spans)
    return Feed(output.collector, participants, clock, watchers=WATCH_THREADS)


def make_fanout(output: TelemetryOutput, feed: Feed) -> Fanout:
    """Make the fan-out to all sinks that are told of commits, the feed first: a loop may still be stopped."""
    sinks: dict[str, NewsSink] = {
        "feed": feed,
        "findings": output.findings,
        "agents": output.agents,
        "instruments": output.evaluations,
    }
    if output.events is not None:
        sinks["events"] = output.events
    return Fanout(sinks, output.collector)


def tell_what_the_last_process_could_not(output: TelemetryOutput, feed: Feed, store: Store, clock: Clock) -> None:
    """Export the events that have not left, and remember the findings that watchers may have missed."""
    if output.events is not None:
        output.events.take_news(News(counted=store.findings.unexported(clock.now() - EXPORTED_AGAIN)))
    feed.remember(store.findings.newest(MAX_ALARMS))


def instance_id(data_dir: Path) -> str:
    """Return the id of this collector at a backend: the same after a restart, another one for another folder."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"agenteval://{socket.gethostname()}{data_dir.resolve()}"))


def _push_target(settings: Settings) -> PushTarget | None:
    export = settings.export
    if export.endpoint is None:
        return None
    try:
        return PushTarget(
            endpoint=export.endpoint,
            headers={name: value.get_secret_value() for name, value in export.headers.items()},
            ca_certificate=export.certificate.read_bytes() if export.certificate else None,
            interval=export.interval,
        )
    except (ValueError, OSError) as error:
        raise ConfigError(f"export: {error}") from error
