"""Make what emits news: instruments, events, and the feed of watchers."""

import socket
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from agenteval_collector.app.storage import Storage
from agenteval_collector.config.settings import ProcessRole, Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.emit.fanout import Fanout
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.emit.target import PushTarget
from agenteval_collector.evaluation.sessions.past_sessions import PastSessions
from agenteval_collector.ingest.ports import Requests
from agenteval_collector.model.news import NewsSink


def make_output(settings: Settings, storage: Storage[Requests], is_on_duty: Callable[[], bool]) -> TelemetryOutput:
    """Make the instruments, and their push if one is set. Events leave while this process `is_on_duty`."""
    return TelemetryOutput(
        version=version("otel-agenteval"),
        instance_id=instance_id(settings.data_dir),
        tenant=storage.tenant,
        push=_push_target(settings),
        outbox=storage.store.outbox,
        is_on_duty=is_on_duty,
        max_series=settings.server.max_series,
    )


def make_emit(output: TelemetryOutput, watchers: NewsSink, past_sessions: PastSessions) -> Fanout:
    """Make what tells all sinks of commits. The `watchers` hear first, because a loop may still be stopped."""
    sinks: dict[str, NewsSink] = {
        "feed": watchers,
        "findings": output.findings,
        "agents": output.agents,
        "instruments": output.evaluations,
        "past sessions": past_sessions,
    }
    return Fanout(sinks, output.own_work)


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
            protocol=export.protocol,
            headers={name: value.get_secret_value() for name, value in export.headers.items()},
            certificate=export.certificate,
            # One process pushes events, and only those that serve can have the duty.
            events=export.events and settings.role.does(ProcessRole.SERVE),
            interval=export.interval,
        )
    except (ValueError, OSError) as error:
        raise ConfigError(f"export: {error}") from error
