"""The command `agenteval replay`."""

from pathlib import Path
from typing import Annotated

import typer

from agenteval_collector.cli.settings import ConfigFile


def replay(
    files: Annotated[list[Path], typer.Argument(help="X.otlp.pb (with X.logs.otlp.pb beside it) or OTLP/JSON.")],
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="Send to this collector instead (its gRPC port: http://host:port, with TLS https://host:port)."
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(help="JSON lines: results of runs (task_id, run_id, success), cases that must not fail again."),
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Exit with 1 where a figure is below VALUE or undefined: R_con, pass^4, coherence. Repeatable.",
        ),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FINDING",
            help="Exit with 1 if a trace has a finding of this kind: tool_failed, repeated_call. Repeatable.",
        ),
    ] = None,
    file: ConfigFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print {traces, sessions, reliability} as the API has them.")
    ] = False,
) -> None:
    """Evaluate recorded telemetry in this process, or send it to a collector."""
    # Imported here, so that `--help` is quick.
    from agenteval_collector.cli.run_replay import run  # noqa: PLC0415

    run(
        files,
        file,
        endpoint=endpoint,
        dataset=dataset,
        fail_under=fail_under or (),
        forbid=forbid or (),
        as_json=as_json,
    )
