"""`agenteval config`, and what commands share about settings."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from agenteval_collector.cli.terminal import fail
from agenteval_collector.config import ConfigError, Settings, load

ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file with settings.")]


def effective(file: Path | None, flags: dict[str, Any] | None = None) -> Settings:
    """Return the settings; end the command with what is wrong with them."""
    try:
        return load(file, os.environ, flags)
    except ConfigError as error:
        fail(str(error))


def config(
    file: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Print the effective settings: defaults, the file, AGENTEVAL_* variables. Secrets are masked."""
    settings = effective(file)
    if as_json:
        typer.echo(settings.model_dump_json(indent=2))
    else:
        typer.echo(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False), nl=False)
