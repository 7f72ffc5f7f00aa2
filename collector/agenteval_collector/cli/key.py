"""`agenteval key`."""

import secrets
from typing import Annotated

import typer
import yaml
from pydantic import ValidationError

from agenteval_collector.cli.terminal import fail
from agenteval_collector.config import KeyConfig, digest_of
from agenteval_collector.model.callers import DEFAULT_TENANT, Scope


def key(
    name: Annotated[str, typer.Argument(help="Shown in the audit log.")],
    scope: Annotated[list[Scope], typer.Option(help="What the key may do; give it once for each scope.")],
    tenant: Annotated[str, typer.Option(help="Whose data it is for.")] = DEFAULT_TENANT,
) -> None:
    """Make a key. Prints it once, and its entry for `server.keys` or `server.keys_file`, which holds its digest."""
    made = secrets.token_urlsafe(32)
    entry = {"name": name, "sha256": digest_of(made), "scopes": [str(each) for each in scope], "tenant": tenant}
    try:
        KeyConfig.model_validate(entry)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        fail(f"{first['loc'][0]}: {first['msg']}")
    typer.echo(f"# the key, shown this once: {made}")
    typer.echo(yaml.safe_dump([entry], sort_keys=False), nl=False)
