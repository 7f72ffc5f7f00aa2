"""The files in the data folder: the log's requests, and the store."""

import fcntl
from pathlib import Path
from typing import IO

from agenteval_collector.assembly import KnownTrace, reassemble
from agenteval_collector.config import ConfigError, Settings
from agenteval_collector.log import RequestFile
from agenteval_collector.model.assembled import AssembledTrace
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.stores import TENANT, Store


class Storage:
    """Both files, open, in a folder that belongs to this process until the shutdown."""

    def __init__(self, settings: Settings, clock: Clock, *, is_guest: bool = False) -> None:
        """Raises ConfigError where the folder cannot be used, PermanentError where the data is not ours.

        A guest has the files open beside the collector that the folder belongs to, if one runs: it reads, and adds to
        the judge's ledger.
        """
        self._lock = _visit(settings.data_dir) if is_guest else _lock(settings.data_dir)
        try:
            self.store = Store(settings.data_dir / "agenteval.db", clock, retention=settings.log.retention)
            self.requests = RequestFile(settings.data_dir / "log.db")
        except BaseException:
            self._lock.close()
            raise

    @property
    def closed(self) -> bool:
        """True once the folder is free for others."""
        return self._lock.closed

    def trace(self, trace_id: str) -> AssembledTrace | None:
        """Put a trace together again from the requests that the store says it came in; None where some are gone."""
        known = self.store.known_traces([trace_id]).get(trace_id)
        if known is None:
            return None
        revision, offsets = known
        return reassemble(trace_id, TENANT, KnownTrace(revision=revision, offsets=offsets), self.requests)

    def shutdown(self) -> None:
        self.requests.shutdown()
        self.store.shutdown()
        self._lock.close()


def _visit(data_dir: Path) -> IO[str]:
    """Open the lock of a folder that a collector has used, without taking it."""
    try:
        return (data_dir / "lock").open()
    except OSError as error:
        raise ConfigError(
            f"data_dir: no collector has kept anything in {data_dir} ({error.strerror}); give the collector's settings "
            "(--config, --data-dir)"
        ) from error


def _lock(data_dir: Path) -> IO[str]:
    """Lock the data folder for this process alone, until the returned file is closed."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("w")
    except OSError as error:
        raise ConfigError(f"data_dir: {data_dir} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(f"data_dir: another collector uses {data_dir}; give this one another --data-dir") from error
    return lock
