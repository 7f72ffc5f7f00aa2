"""Log and store of a tenant: two files in the data folder, or Kafka and PostgreSQL. And what is redacted before."""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final, Generic, TypeVar

from agenteval_collector.assembly.restoring import reassemble
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.emit.events import events_of
from agenteval_collector.ingest.redacting import RequestRedaction
from agenteval_collector.ingest.request_file import RequestFile
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.model.logged_requests import Requests
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import PermanentError, RetryableError
from agenteval_collector.runtime.files import HeldFile, make_folder, sync, sync_data
from agenteval_collector.stores.engines.ports import DUTY_LASTS, Database, Use
from agenteval_collector.stores.store import Store
from otel_agenteval.model import Json
from otel_agenteval.redaction import Redactor
from otel_agenteval.redaction.redactor import RedactionBudget

R_co = TypeVar("R_co", bound=Requests, covariant=True)

STORE, LOG = "agenteval.db", "log.db"
"""The files in a data folder."""


class Storage(Generic[R_co]):
    """Log and store of a tenant, open, in a folder that belongs to this process until the shutdown."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        tenant: str = DEFAULT_TENANT,
        *,
        open_log: Callable[[], R_co],
    ) -> None:
        """Raises ConfigError if the folder cannot be used, PermanentError if the data is not ours.

        `open_log` opens the log. If the log is in Kafka, other processes use the store, too.
        """
        self.tenant = tenant
        self._max_trace_bytes = settings.server.max_trace_bytes
        folder = self.folder = tenant_folder(settings.data_dir, tenant)
        export, url = settings.export, settings.store.url
        with ExitStack() as undone:
            self._lock = undone.enter_context(locked(folder))
            _refuse_emptied(folder)
            use = Use.TOGETHER if settings.log.url else Use.ALONE
            self.store = Store(
                folder / STORE if url is None else schema_of(url, tenant, use),
                clock,
                tenant=tenant,
                retention=settings.log.retention,
                events_of=partial(events_of, tenant=tenant) if export.endpoint and export.events else no_events,
            )
            undone.callback(self.store.shutdown)
            if url is not None and use is Use.ALONE:
                _refuse_shared(self.store)
            self.requests: R_co = open_log()
            files = ((STORE, url), (LOG, settings.log.url))
            self._held = [HeldFile(folder / name) for name, elsewhere in files if elsewhere is None]
            undone.pop_all()

    @property
    def closed(self) -> bool:
        """True once the folder is free for others."""
        return self._lock.closed

    @property
    def lost(self) -> str | None:
        """Why the data that was written last is lost: a file was deleted or replaced; None if none was."""
        return next((held.trouble for held in self._held if held.trouble is not None), None)

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close the files if the body fails, which builds the pipeline on them."""
        try:
            yield
        except BaseException:
            self.shutdown()
            raise

    def trace(self, trace_id: str) -> AssembledTrace | None:
        """Assemble a scored trace again from its requests in the log; None if some are gone."""
        scored = self.store.known_traces([trace_id]).get(trace_id)
        if scored is None:
            return None
        return reassemble(trace_id, self.tenant, scored, self.requests, max_bytes=self._max_trace_bytes)

    def shutdown(self) -> None:
        self.requests.shutdown()
        self.store.shutdown()
        self._lock.close()


def request_file(settings: Settings, tenant: str = DEFAULT_TENANT) -> Callable[[], RequestFile]:
    """Return a function that opens the file of a tenant's log."""
    folder = tenant_folder(settings.data_dir, tenant)
    return partial(RequestFile, folder / LOG, beside=[folder / STORE] if settings.store.url is None else [])


def schema_of(url: str, tenant: str, use: Use) -> Database:
    """Return the schema of a tenant in a database. Raises ConfigError if there is no driver, PermanentError if
    the database cannot be used, Unavailable if it cannot be reached."""
    try:
        # Imported here: the driver is not installed, or not loaded, if nobody asks for it.
        from agenteval_collector.stores.engines.postgresql import PostgresSchema  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"store.url: {error}; install the extra `postgres`") from error
    return PostgresSchema(url, tenant, use=use)


def tenant_folder(data_dir: Path, tenant: str) -> Path:
    """Return the folder of a tenant's data: `data_dir` itself for the default tenant, a folder in it for any other."""
    return data_dir if tenant == DEFAULT_TENANT else data_dir / "tenants" / tenant


def tenant_folders(data_dir: Path) -> Iterator[tuple[str, Path]]:
    """Yield each tenant with data, and its folder; the default tenant first, whether it has data or not."""
    yield DEFAULT_TENANT, data_dir
    # A backup has no locks, so the folders count by themselves.
    for folder in sorted(data_dir.glob("tenants/*/")):
        yield folder.name, folder


def _refuse_emptied(folder: Path) -> None:
    """Raise PermanentError if one file is empty and another is not: SQLite would start an empty one anew, and the
    two would no longer belong together."""
    sizes = {name: (folder / name).stat().st_size for name in (STORE, LOG) if (folder / name).exists()}
    for name, size in sizes.items():
        if not size and any(sizes.values()):
            raise PermanentError(
                f"{folder / name} is empty, and other data is there: restore it from a backup, or delete it to begin "
                "it anew"
            )


def _refuse_shared(store: Store) -> None:
    """Raise PermanentError if several processes have used this store: its rows hold offsets of their log in Kafka,
    which would be taken for offsets of the log in this folder."""
    if store.claims.were_taken():
        raise PermanentError(
            "store.url: several processes with log.url have used this database: give this one their log.url, too, or "
            "a database of its own"
        )


def locked(data_dir: Path, advice: str = "give this one another --data-dir") -> IO[str]:
    """Lock the data folder for this process alone, until the returned file is closed. Raises ConfigError, with the
    advice if a collector uses the folder."""
    with ExitStack() as undone:
        try:
            make_folder(data_dir)
            lock = undone.enter_context((data_dir / "lock").open("w"))
            os.fchmod(lock.fileno(), 0o600)
            _lock(lock, data_dir, advice)
            sync_data(data_dir)
        except OSError as error:
            raise ConfigError(f"data_dir: {data_dir} cannot be used: {error.strerror}") from error
        undone.pop_all()
    return lock


def _lock(lock: IO[str], data_dir: Path, advice: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(f"data_dir: a collector uses {data_dir}; {advice}") from error


STORE_ASKED_EVERY: Final = 2.0
"""Seconds between two looks."""
_NEVER: Final = float("-inf")


class StoreWatch(Poller):
    """Asks the store again and again, so that also an idle process is unhealthy while the store is away.

    If it may, it takes the duty. One process has the duty until that process is gone.
    """

    def __init__(self, store: Store, clock: Clock, *, may_have_duty: bool) -> None:
        super().__init__("store", STORE_ASKED_EVERY)
        self._store = store
        self._clock = clock
        self._look = self._take_duty if may_have_duty else store.reach
        self._duty_until = _NEVER

    def is_on_duty(self) -> bool:
        """Return whether this process, and no other one, has the duty. From any thread."""
        return self._clock.monotonic() < self._duty_until

    def step(self) -> None:
        self.insist(self._look)

    def _take_duty(self) -> None:
        # Taken before the question: the store starts counting later, so this process gives up earlier.
        until = self._clock.monotonic() + DUTY_LASTS
        was_on_duty = self.is_on_duty()
        try:
            has_duty = self._store.take_duty()
        except RetryableError:
            self._duty_until = _NEVER
            raise
        self._duty_until = until if has_duty else _NEVER
        if has_duty is not was_on_duty:
            who = "this process" if has_duty else "another process"
            self._logger.info("%s shows the shared gauges, pushes events and deletes", who)


KEY_BYTES = 32
REDACTION_KEY = "redaction.key"
"""The file in a data folder that holds the key by which its placeholders are made."""


def stored_redaction(settings: Settings, folder: Path) -> RequestRedaction | None:
    """Return the redaction of requests before they are kept; None if they are kept as they came.

    The placeholders are made with a key in `folder`: so equal values have equal placeholders as long as the data is
    kept. Raises ConfigError if the key cannot be read or written.
    """
    config = settings.redaction
    if config.store == "off":
        return None
    key, own, personal_data = _key(folder / REDACTION_KEY), config.own, config.store == "all"

    def redact(value: Json, budget: RedactionBudget) -> Json:
        return Redactor(personal_data, key=key, own=own, budget=budget).redact(value)

    session = settings.session
    return RequestRedaction(redact, ids=(*session.attributes, *((session.link_by,) if session.link_by else ())))


def _key(path: Path) -> bytes:
    """Return the key in the file. Make the file if there is none."""
    try:
        if not path.exists():
            new = path.with_suffix(".new")
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            sync(path.parent)
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"redaction.store: the key in {path} cannot be used: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"redaction.store: {path} is no key of {KEY_BYTES} bytes: restore it, or delete it for a new one"
        )
    return key
