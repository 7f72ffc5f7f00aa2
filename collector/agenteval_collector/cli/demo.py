"""The command `agenteval demo`."""

from typing import Annotated

import typer


def demo(
    once: Annotated[bool, typer.Option("--once", help="End when the sample agents are done and scored.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print {sessions, traces, findings, metrics_url} at the end.")
    ] = False,
) -> None:
    """Start a collector, let four sample agents talk to it, and watch what is found; needs no key and no network.

    If OPENAI_BASE_URL or OPENAI_API_KEY is set, a judge scores them too.
    """
    # Imported here, so that `--help` is quick.
    from agenteval_collector.cli.run_demo import run  # noqa: PLC0415

    run(once=once, as_json=as_json)
