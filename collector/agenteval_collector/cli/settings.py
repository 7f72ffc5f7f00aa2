"""The commands `agenteval config` and `agenteval key`, and the functions by which all commands read settings."""

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError

from agenteval_collector.cli.terminal import fail, failing_on
from agenteval_collector.config.keys import KeyConfig, digest_of
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError, load
from agenteval_collector.model.callers import DEFAULT_TENANT, Scope

ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file with settings.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The collector's folder.")]


def effective(file: Path | None, flags: dict[str, Any] | None = None) -> Settings:
    """Return the effective settings. If some are wrong, end the command with a sentence on each."""
    with failing_on(ConfigError):
        return load(file, os.environ, flags)


def effective_in(file: Path | None, data_dir: Path | None) -> Settings:
    """Return the effective settings as `effective` does, with this folder if one is given."""
    return effective(file, {} if data_dir is None else {"data_dir": str(data_dir)})


def config(
    file: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Print the effective settings: defaults, the file, AGENTEVAL_* variables. Secrets are masked."""
    settings = effective_in(file, data_dir)
    if settings.evaluators.model_extra or settings.judge.rubrics:
        # Only here, because it loads all evaluators, which takes longer than all else that this command does.
        from agenteval_collector.evaluation.evaluators.enabled import trace_evaluators  # noqa: PLC0415

        with failing_on(ConfigError):
            trace_evaluators(settings)
    if as_json:
        typer.echo(settings.model_dump_json(indent=2))
    else:
        typer.echo(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False), nl=False)


def key(
    name: Annotated[str, typer.Argument(help="Shown in the audit log.")],
    scope: Annotated[list[Scope], typer.Option(help="What the key may do; give it once for each scope.")],
    tenant: Annotated[str, typer.Option(help="Whose data it is for.")] = DEFAULT_TENANT,
) -> None:
    """Make a key. Prints it once, and its entry for `server.keys` or `server.keys_file`, which holds its digest."""
    made = secrets.token_urlsafe(32)
    entry = {
        "name": name,
        "sha256": digest_of(made),
        "scopes": [str(scope_name) for scope_name in scope],
        "tenant": tenant,
    }
    try:
        KeyConfig.model_validate(entry)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        fail(f"{first['loc'][0]}: {first['msg']}")
    typer.echo(f"# the key, shown this once: {made}")
    typer.echo(yaml.safe_dump([entry], sort_keys=False), nl=False)
