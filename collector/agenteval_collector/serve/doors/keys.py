"""Find a caller by its key, or by the common name of its client certificate."""

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from agenteval_collector.config.keys import KeyConfig, shared_ways
from agenteval_collector.config.sources import ConfigError, load_keys
from agenteval_collector.model.callers import ANONYMOUS, Caller
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.serve.doors.watched_files import Watched


class KeyRing:
    """Knows callers by the digests of their keys, and by their certificates. From any thread.

    Without any entry everybody is `ANONYMOUS`, and may do everything.
    """

    def __init__(self, entries: Sequence[KeyConfig] = (), file: Path | None = None, clock: Clock | None = None) -> None:
        """Take `entries`, and those of `file`. Raises ConfigError if the file cannot be used."""
        self._given = tuple(entries)
        self._file = file
        self._entries = Watched([file] if file else [], self._read, clock or SystemClock())

    @property
    def is_open(self) -> bool:
        """True if no key is needed. A file without entries lets nobody in; it does not open the door."""
        return not self._given and self._file is None

    @property
    def has_certificates(self) -> bool:
        """True if a client certificate can stand for a caller."""
        return bool(self._entries.get()[1])

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants of all callers that are known now."""
        keys, certificates = self._entries.get()
        return frozenset(caller.tenant for caller in (*(caller for _, caller in keys), *certificates.values()))

    def by_key(self, key: bytes) -> Caller | None:
        """Return the caller that has this key; None if nobody has it."""
        if self.is_open:
            return ANONYMOUS
        digest = hashlib.sha256(key).hexdigest().encode()
        match = None
        # Every entry is compared, in constant time each, so that timing tells nothing about any of them.
        for known, caller in self._entries.get()[0]:
            if hmac.compare_digest(digest, known):
                match = caller
        return match

    def by_certificate(self, common_name: str) -> Caller | None:
        """Return the caller whose client certificate has this common name; None if nobody's has. The certificate
        must be verified."""
        return ANONYMOUS if self.is_open else self._entries.get()[1].get(common_name)

    def knows(self, caller: Caller) -> bool:
        """Return whether an entry still stands for this caller, with the same tenant and scopes."""
        keys, certificates = self._entries.get()
        return self.is_open or caller in (*(known for _, known in keys), *certificates.values())

    def _read(self) -> tuple[list[tuple[bytes, Caller]], dict[str, Caller]]:
        entries = (*self._given, *(load_keys(self._file) if self._file else ()))
        if shared := shared_ways(entries):
            raise ConfigError(f"{self._file}: {shared}")
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
