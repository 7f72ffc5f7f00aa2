"""The command `agenteval collector`."""

import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from agenteval_collector.cli.settings import ConfigFile, effective
from agenteval_collector.cli.terminal import fail, failing_on
from agenteval_collector.config.settings import ProcessRole
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.runtime.errors import CollectorError
from agenteval_collector.runtime.logs import write_logs
from agenteval_collector.runtime.machine import GARBAGE_THRESHOLDS, share_arenas

SWITCH_INTERVAL: Final = 0.001
"""Seconds that a thread may compute at most while other threads wait for the interpreter.

A request passes five threads, and each of them waits for the interpreter again after every call of the database. Under
load, Python's default of 5 ms makes all this half as long again.
"""


def collector(
    grpc_address: Annotated[str | None, typer.Option(help="OTLP/gRPC and our own service [127.0.0.1:4317].")] = None,
    http_address: Annotated[str | None, typer.Option(help="OTLP/HTTP [127.0.0.1:4318].")] = None,
    web_address: Annotated[str | None, typer.Option(help="API, metrics, page [127.0.0.1:4319].")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder for the log and the store.")] = None,
    role: Annotated[
        ProcessRole | None,
        typer.Option(help="The part of the work that this process does, where several share it [all]."),
    ] = None,
    file: ConfigFile = None,
) -> None:
    """Take OTLP, score traces and sessions, serve the scores. Port 0 picks a free port.

    Prints one JSON line with the addresses on stdout when it is ready; logs go to stderr. SIGTERM drains and ends it.
    """
    # Imported here, so that `--help` is quick.
    from agenteval_collector.app.collector import Collector  # noqa: PLC0415
    from agenteval_collector.app.scoring import worker_count  # noqa: PLC0415

    server = {"grpc_address": grpc_address, "http_address": http_address, "web_address": web_address}
    flags: dict[str, Any] = {"server": {name: address for name, address in server.items() if address is not None}}
    if data_dir is not None:
        flags["data_dir"] = str(data_dir)
    if role is not None:
        flags["role"] = role.value
    settings = effective(file, flags)
    write_logs(settings.server.log_level, settings.server.log_format)
    share_arenas()
    # Not an Event: a signal may interrupt this thread while it holds the Event's lock. The handler would wait for ever.
    stops: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stops.append(number))
    with failing_on(ConfigError, CollectorError, OSError):
        service = Collector(settings, workers=worker_count(settings))
    try:
        addresses = service.start()
        while not service.ready and not stops:
            time.sleep(0.01)
        # All objects that exist by now stay. To look for garbage among them again and again would take 5 % of the time.
        gc.freeze()
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        sys.setswitchinterval(SWITCH_INTERVAL)
        print(json.dumps(dict(addresses)), flush=True)
        while not stops:  # A signal just before a wait does not end that wait, so each wait is short.
            time.sleep(0.1)
    except (CollectorError, OSError) as error:
        fail(str(error))
    finally:
        service.shutdown()
    if (lost := service.pipelines.lost) is not None:
        fail(lost)
