"""Callers, as keys and client certificates name them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_TENANT: Final = "default"


class Scope(StrEnum):
    """A permission of a caller."""

    WRITE = "write"
    """Send spans, log records, run reports and feedback, and end sessions."""
    READ = "read"
    LABEL = "label"
    """Label, resolve and mute problems, and have the judge asked."""
    ADMIN = "admin"
    """Delete, and everything else."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `name` is what the audit log shows, never the key."""

    name: str
    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = frozenset(Scope)

    def may(self, *scopes: Scope) -> bool:
        """Return whether the caller has one of these scopes."""
        return Scope.ADMIN in self.scopes or any(scope in self.scopes for scope in scopes)


ANONYMOUS: Final = Caller("anonymous")
"""The caller of every request if no key is asked for."""
