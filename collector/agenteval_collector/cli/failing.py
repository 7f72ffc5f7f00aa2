"""The end of a command that cannot go on."""

from typing import NoReturn

import typer


def fail(message: str) -> NoReturn:
    """End the command with a sentence on stderr and exit code 1."""
    typer.echo(f"agenteval: {message}", err=True)
    raise typer.Exit(1)
