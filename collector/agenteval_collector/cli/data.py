"""Commands about the files of a collector: `backup`, `check` and `repair`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agenteval_collector.app.data_files import back_up_data, check_data, check_stores, repair_data, retry
from agenteval_collector.app.storage import STORE
from agenteval_collector.cli.settings import ConfigFile, DataDir, effective_in
from agenteval_collector.cli.terminal import clean, fail, failing_on
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.runtime.errors import CollectorError

_DUMP = "copy it with `pg_dump --schema 'agenteval*'` before the log, which then has all that the copy still needs."
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    file: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Copy all data to a new folder, as it is at one moment. The collector may run.

    A collector that starts with --data-dir DIR goes on from there. With store.url the store is not copied: pg_dump does
    that, before this command.
    """
    with failing_on(ConfigError):
        settings = _with_files(effective_in(file, data_dir))
        back_up_data(settings.data_dir, folder, settings.store.url)
    if settings.store.url is None:
        typer.echo(clean(f"Everything that was acknowledged until now is in {folder}."))
    else:
        typer.echo(clean(f"The log is in {folder}. The store is in PostgreSQL: {_DUMP}"))


def check(file: ConfigFile = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Find out whether the files are whole, and fit together. The collector may run. Exits with 1 if they do not."""
    with failing_on(ConfigError, CollectorError, OSError):
        settings = effective_in(file, data_dir)
        url, is_elsewhere = settings.store.url, settings.log.url is not None
        if url is not None and is_elsewhere:
            troubles = check_stores(settings.data_dir, url)
        else:
            troubles = check_data(settings.data_dir, url)
    if as_json:
        typer.echo(json.dumps({"troubles": list(map(asdict, troubles))}))
    elif not troubles:
        typer.echo("Nothing is wrong.")
    for trouble in troubles if not as_json else ():
        typer.echo(clean(f"{trouble.file}: {trouble.what}"))
    if troubles and is_elsewhere:
        fail("restore the store from a copy (docs/scaling.md)")
    if troubles:
        fail("`agenteval repair` saves what can be read, while no collector runs")


def repair(
    file: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    item_id: Annotated[
        str | None, typer.Option("--retry", metavar="ID", help="Try one item in quarantine again; a collector may run.")
    ] = None,
) -> None:
    """Make new files of what can be read of damaged ones, and keep those under another name. No collector may run.

    The next start scores again what the log still holds. With store.url only the log is repaired.
    """
    with failing_on(ConfigError, CollectorError, OSError):
        settings = _with_files(effective_in(file, data_dir))
        if item_id is not None:
            _retry(settings, item_id, as_json=as_json)
            return
        repairs = repair_data(settings.data_dir, settings.store.url)
    if as_json:
        typer.echo(json.dumps({"repairs": list(map(asdict, repairs))}))
        return
    for file_repair in repairs:
        lost = [name for name, table in file_repair.tables.items() if not table.whole]
        rows = sum(table.rows for table in file_repair.tables.values())
        some = f"; not all could be read of {', '.join(lost)}" if lost else ""
        if file_repair.kept_as is None:
            typer.echo(clean(f"{file_repair.file} was missing. A new one is there, without any row."))
        else:
            typer.echo(
                clean(f"{file_repair.file}: {rows} rows are saved{some}. The damaged file is {file_repair.kept_as}.")
            )
    if any(Path(repair.file).name == STORE for repair in repairs):
        typer.echo("The next start scores again what log.db still has of lost traces.")
    if not repairs:
        typer.echo("Nothing is wrong.")


def _retry(settings: Settings, item_id: str, *, as_json: bool) -> None:
    if not retry(settings.data_dir, settings.store.url, item_id):
        fail(f"nothing is in quarantine as {item_id}; `agenteval doctor` lists what is")
    if as_json:
        typer.echo(json.dumps({"retried": item_id}))
    else:
        typer.echo(clean(f"{item_id} is tried again: within a second, or when the collector starts."))


def _with_files(settings: Settings) -> Settings:
    if settings.log.url is not None:
        raise ConfigError("log.url: there is no file; the log is in Kafka, and pg_dump and pg_restore copy the store")
    return settings
