"""Back up, check and repair the files of a data folder, beside a collector or without one.

`url` is `store.url`: then the log is the only file, and the store is the server's.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import inspect, text
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.app.storage import LOG, REDACTION_KEY, STORE, locked, schema_of, tenant_folder, tenant_folders
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.ingest.request_file import damaged as damaged_requests
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.backup import back_up
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.runtime.database import READABLE
from agenteval_collector.runtime.errors import PermanentError, Unavailable
from agenteval_collector.runtime.files import sync_data
from agenteval_collector.runtime.salvage import Salvaged, salvage, unreadable_texts
from agenteval_collector.stores.engines.ports import Use
from agenteval_collector.stores.migration import newest_revision
from agenteval_collector.stores.schema import SAID_INDEX
from agenteval_collector.stores.store import Store

MOST_TOLD: Final = 10
"""The most sentences that are said about one file."""
_LOST: Final = {
    # First: what the log still has of such a trace is scored again only if the store does not know it.
    "traces": "traces t WHERE NOT EXISTS (SELECT 1 FROM trace_views v WHERE v.trace_id = t.trace_id)",
    "trace_views": "trace_views v WHERE NOT EXISTS (SELECT 1 FROM traces t WHERE t.trace_id = v.trace_id)",
    "outcomes of traces": "outcomes o WHERE o.subject = 'trace' AND NOT EXISTS "
    "(SELECT 1 FROM traces t WHERE t.trace_id = o.subject_id)",
    "outcomes of sessions": "outcomes o WHERE o.subject = 'session' AND NOT EXISTS "
    "(SELECT 1 FROM sessions s WHERE s.session_id = o.subject_id)",
    "problem_traces": "problem_traces p WHERE NOT EXISTS (SELECT 1 FROM problems q WHERE q.problem_id = p.problem_id)",
}
"""Select the rows that refer to lost rows: the text behind FROM, by the name that messages give these rows."""

_RETRY: Final = "UPDATE quarantine SET is_retried = true WHERE item_id = :id"
_REFUSED: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)
"""Errors that say only that a file may not be used, and nothing of what is in it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong with a file, in a sentence."""

    file: str
    what: str


@dataclass(frozen=True, slots=True)
class Repair:
    """A file that was made anew: where the damaged one is now, and what was copied, by table.

    `kept_as` is None if the file was missing.
    """

    file: str
    kept_as: str | None
    tables: Mapping[str, Salvaged]


@dataclass(frozen=True, slots=True)
class _StoreState:
    """The state of a tenant's store: its place, what is wrong with it, and how far it knows the log."""

    name: str
    troubles: Sequence[str]
    checkpoint: int | None


def back_up_data(data_dir: Path, folder: Path, url: str | None = None) -> None:
    """Copy the files of all tenants into a new folder, from which a collector can start. Raises ConfigError if that
    fails, or there are no files."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; give a new folder")
    try:
        _refuse_without_files(data_dir)
        for tenant, own in tenant_folders(data_dir):
            copied = tenant_folder(folder, tenant)
            copied.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The store first: it says from where on the log is read again.
            files = [own / STORE, own / LOG] if url is None else [own / LOG]
            back_up(files[0], files[1:], copied)
            if (key := own / REDACTION_KEY).exists():
                shutil.copy(key, copied)
            sync_data(copied)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"{data_dir} could not be backed up to {folder}: {error}") from error


def check_data(data_dir: Path, url: str | None = None) -> list[Trouble]:
    """Return what is wrong with the files of all tenants, and with their stores elsewhere. Raises ConfigError if
    there are none or they may not be used, CollectorError if a store cannot be looked at, or is of another version.
    """
    _refuse_without_files(data_dir)
    return [
        # A store elsewhere has a name of its own, and none in the folder.
        replace(trouble, file=str((folder / trouble.file).relative_to(data_dir)))
        if trouble.file in (STORE, LOG)
        else trouble
        for tenant, folder in tenant_folders(data_dir)
        for trouble in _check_folder(folder, tenant, url)
    ]


def check_stores(data_dir: Path, url: str) -> list[Trouble]:
    """Return what is wrong with the stores of all tenants, if neither stores nor logs are in the folder. Raises
    CollectorError if a store cannot be looked at, or is of another version."""
    states = [_state_of(url, tenant) for tenant, _ in tenant_folders(data_dir)]
    return [Trouble(state.name, what) for state in states for what in state.troubles]


def repair_data(data_dir: Path, url: str | None = None) -> list[Repair]:
    """Make each file anew that something is wrong with, of what can be read of it. What the log still holds of lost
    traces is scored again at the next start. Raises ConfigError if there are no files, a collector runs or a file
    may not be used, CollectorError if a store is of another version."""
    _refuse_without_files(data_dir)
    return [
        replace(repair, file=str((folder / repair.file).relative_to(data_dir)))
        for tenant, folder in tenant_folders(data_dir)
        for repair in _repair_folder(folder, tenant, url)
    ]


def retry(data_dir: Path, url: str | None, item_id: str) -> bool:
    """Let the collector try again what is in quarantine under this id. Return False if nothing is. A collector may run.

    Raises ConfigError if there are no files, CollectorError if a store cannot be written.
    """
    _refuse_without_files(data_dir)
    found = 0
    for tenant, folder in tenant_folders(data_dir):
        if url is not None:
            found += _retry_in(url, tenant, item_id)
        elif (folder / STORE).exists():
            try:
                with closing(_open(folder / STORE)) as store, store:
                    found += store.execute(_RETRY, {"id": item_id}).rowcount
            except sqlite3.DatabaseError as error:
                raise Unavailable(f"{folder / STORE} could not be written: {error}") from error
    return found > 0


def _retry_in(url: str, tenant: str, item_id: str) -> int:
    database = schema_of(url, tenant, Use.GUEST)
    engine = database.engine(durable=True, pool_size=1)
    try:
        with engine.begin() as connection:
            return connection.execute(text(_RETRY), {"id": item_id}).rowcount
    except SQLAlchemyError as error:
        raise Unavailable(f"{database.name} could not be written: {error}") from error
    finally:
        engine.dispose()
        database.close()


def _refuse_without_files(data_dir: Path) -> None:
    if not (data_dir / STORE).exists() and not (data_dir / LOG).exists():
        raise ConfigError(f"no collector has kept anything in {data_dir}; give --data-dir, or --config")


def _check_folder(folder: Path, tenant: str, url: str | None) -> list[Trouble]:
    if url is None:
        troubles = [*_troubles(folder / STORE, _check_store)]
        checkpoint = _checkpoint_in(folder / STORE)
    else:
        state = _state_of(url, tenant)
        troubles = [Trouble(state.name, what) for what in state.troubles]
        checkpoint = state.checkpoint
    return [*troubles, *_troubles(folder / LOG, lambda path: _check_log(path, checkpoint))]


def _repair_folder(folder: Path, tenant: str, url: str | None) -> list[Repair]:
    with locked(folder, "stop it first"):
        damaged = {trouble.file for trouble in _check_folder(folder, tenant, url)}
        repairs = [_remade(folder / name, tenant) for name in (STORE, LOG) if name in damaged]
        if STORE in damaged:
            with closing(_open(folder / STORE)) as store, store:
                _forget_lost(store)
        checkpoint = _checkpoint_in(folder / STORE) if url is None else _state_of(url, tenant).checkpoint
        with closing(_open(folder / LOG)) as log, log:
            [last] = log.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()
            # An offset is never given twice: the store would take the new request for the old one.
            used = max(checkpoint or 0, last or 0)
            for offset in [*damaged_requests(folder / LOG)] if LOG in damaged else ():
                log.execute('DELETE FROM requests WHERE "offset" = ?', (offset,))
            log.execute("DELETE FROM sqlite_sequence")
            log.execute("INSERT INTO sqlite_sequence VALUES ('requests', ?)", (used,))
        if STORE in damaged:
            with closing(_open(folder / STORE)) as store, store:
                store.execute("UPDATE progress SET checkpoint = 0")
    return repairs


def _remade(path: Path, tenant: str) -> Repair:
    if not path.exists():
        _make(path, tenant)
        return Repair(path.name, None, {})
    free_name = next(
        candidate
        for number in range(1, 1000)
        if not (candidate := path.with_name(f"{path.name}.damaged-{number}")).exists()
    )
    for ending in ("", "-wal", "-shm"):
        temporary = path.with_name(path.name + ending)
        if temporary.exists():
            temporary.rename(free_name.with_name(free_name.name + ending))
    _make(path, tenant)
    with closing(_open(free_name)) as damaged, closing(_open(path)) as new, new:
        return Repair(path.name, free_name.name, salvage(damaged, new))


def _make(path: Path, tenant: str) -> None:
    """Make a new file."""
    is_store = path.name == STORE
    (Store(path, SystemClock(), tenant=tenant, events_of=no_events) if is_store else RequestFile(path)).shutdown()


def _forget_lost(store: sqlite3.Connection) -> None:
    """Delete what refers to lost rows: the log has its traces, or nobody has. Sums are made of what is left."""
    store.execute("DELETE FROM session_sums")
    for rows in _LOST.values():
        table, _, rest = rows.partition(" ")
        alias = rest.partition(" ")[0]
        store.execute(f"DELETE FROM {table} WHERE rowid IN (SELECT {alias}.rowid FROM {rows})")


def _troubles(path: Path, check: Callable[[Path], Iterator[str]]) -> list[Trouble]:
    if not path.exists():
        return [Trouble(path.name, "it is missing")]
    troubles: list[Trouble] = []
    try:
        troubles.extend(Trouble(path.name, what) for what in check(path))
    except sqlite3.DatabaseError as error:
        # Errors of Python's own, such as of a text that is not UTF-8, have no code.
        if path.exists() and getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED:
            who = "let this user read and write it and its folder, or be the user that the collector runs as"
            raise ConfigError(f"{path}: {error}: {who}") from error
        if not troubles:
            troubles.append(Trouble(path.name, str(error)))
    return troubles


def _check_store(path: Path) -> Iterator[str]:
    with closing(_open(path)) as store:
        yield from _damage(store)
        yield from _misfits(str(path), lambda query: store.execute(query).fetchone()[0])
        store.execute(f"INSERT INTO {SAID_INDEX}({SAID_INDEX}, rank) VALUES ('integrity-check', 1)")
        for table, rows in unreadable_texts(store):
            yield f"{rows} rows of {table} have texts that are not UTF-8; their damaged bytes are read as U+FFFD"


def _checkpoint_in(path: Path) -> int | None:
    """Return the checkpoint of a store; None if it has none, or cannot be read."""
    try:
        with closing(_open(path)) as store:
            [checkpoint] = store.execute("SELECT max(checkpoint) FROM progress").fetchone()
    except sqlite3.DatabaseError:  # Told of the store.
        return None
    return None if checkpoint is None else int(checkpoint)


def _check_log(path: Path, checkpoint: int | None) -> Iterator[str]:
    with closing(_open(path)) as log:
        yield from _damage(log)
        [last] = log.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()
    for offset in islice(damaged_requests(path), MOST_TOLD):
        yield f"request {offset} is not what was written; what it holds is lost"
    if (checkpoint or 0) > (last or 0) + 1:
        yield f"the store knows of requests up to {checkpoint}, and this log ends at {last or 0}: it is an older one"


def _state_of(url: str, tenant: str) -> _StoreState:
    """Look at the store of a tenant in a database. A collector may use it meanwhile. Raises CollectorError if that
    cannot be done."""
    database = schema_of(url, tenant, Use.GUEST)
    engine = database.engine(durable=False, pool_size=1)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return _StoreState(database.name, ["nothing was ever kept there"], None)
            troubles = [*_misfits(database.name, lambda query: connection.execute(text(query)).scalar_one())]
            checkpoint = connection.execute(text("SELECT max(checkpoint) FROM progress")).scalar()
    except SQLAlchemyError as error:
        raise Unavailable(f"{database.name} could not be read: {error}") from error
    finally:
        engine.dispose()
        database.close()
    return _StoreState(database.name, troubles, checkpoint)


def _misfits(name: str, ask: Callable[[str], Any]) -> Iterator[str]:
    """Yield a sentence for each sort of rows of a store that refer to lost ones. Raises PermanentError if another
    version has written the store: what this one would find says nothing, and a repair would lose what it does not know.

    `ask` returns the one value that a query selects.
    """
    revision = ask("SELECT version_num FROM alembic_version")
    if revision != newest_revision():
        raise PermanentError(
            f"{name}: its tables are of revision {revision}, not {newest_revision()}: another version has written it; "
            "check and repair it with that version"
        )
    for what, rows in _LOST.items():
        if lost := ask(f"SELECT count(*) FROM {rows}"):
            yield f"{lost} rows of {what} refer to rows that are lost"


def _damage(file: sqlite3.Connection) -> Iterator[str]:
    for [sentence] in file.execute(f"PRAGMA integrity_check({MOST_TOLD})"):
        if sentence != "ok":
            yield sentence


def _open(path: Path) -> sqlite3.Connection:
    # As a URI, so that a missing file is an error and not made.
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10.0)
    connection.text_factory = READABLE
    return connection
