"""Callers by what they show: a key, or the common name of a client certificate."""

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from agenteval_collector.config import ConfigError, KeyConfig, load_keys
from agenteval_collector.doors.watched_files import Watched
from agenteval_collector.model.callers import ANONYMOUS, Caller
from agenteval_collector.runtime.clock import Clock, SystemClock


class KeyRing:
    """Knows callers by their keys, of which it has digests only, and by their certificates.

    Where there is neither, everybody is `ANONYMOUS` and may do everything. From any thread.
    """

    def __init__(self, entries: Sequence[KeyConfig] = (), file: Path | None = None, clock: Clock | None = None) -> None:
        """`file` holds further entries. Raises ConfigError where it cannot be used."""
        self._given = tuple(entries)
        self._file = file
        self._entries = Watched([file] if file else [], self._read, clock or SystemClock())

    @property
    def is_open(self) -> bool:
        """True where nothing has to be shown. A file with no entries lets nobody in; it does not open the door."""
        return not self._given and self._file is None

    @property
    def has_certificates(self) -> bool:
        """True where a client certificate can stand for a caller."""
        return bool(self._entries.get()[1])

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants of all callers that are known now."""
        keys, certificates = self._entries.get()
        return frozenset(caller.tenant for caller in (*(caller for _, caller in keys), *certificates.values()))

    def by_key(self, key: bytes) -> Caller | None:
        """Return who has this key; None: nobody."""
        if self.is_open:
            return ANONYMOUS
        digest = hashlib.sha256(key).hexdigest().encode()
        found = None
        # Every entry is compared, in constant time each, so that timing tells nothing about any of them.
        for known, caller in self._entries.get()[0]:
            if hmac.compare_digest(digest, known):
                found = caller
        return found

    def by_certificate(self, common_name: str) -> Caller | None:
        """Return whose client certificate has this common name; None: nobody's. The certificate must be verified."""
        return ANONYMOUS if self.is_open else self._entries.get()[1].get(common_name)

    def _read(self) -> tuple[list[tuple[bytes, Caller]], dict[str, Caller]]:
        entries = (*self._given, *(load_keys(self._file) if self._file else ()))
        keys: list[tuple[bytes, Caller]] = []
        certificates: dict[str, Caller] = {}
        names: set[str] = set()
        for entry in entries:
            if entry.name in names:
                raise ConfigError(f"{self._file}: the name {entry.name!r} is taken: give each key a name of its own")
            names.add(entry.name)
            caller = Caller(entry.name, entry.tenant, entry.scopes)
            if entry.sha256 is not None:
                keys.append((entry.sha256.get_secret_value().encode(), caller))
            elif entry.certificate is not None:
                certificates[entry.certificate] = caller
        return keys, certificates
