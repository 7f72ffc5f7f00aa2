"""Callers, as keys and client certificates name them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agenteval_collector.runtime.errors import NotAllowed

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

    def require(self, *scopes: Scope) -> None:
        """Raise NotAllowed unless the caller has one of these scopes."""
        if not self.may(*scopes):
            raise NotAllowed(f"the key {self.name!r} does not have the scope {' or '.join(scopes)}")

    @property
    def speaks_as(self) -> str:
        """The sender that the caller's reports count for: its own name, or empty for the whole tenant.

        Who may label may correct anything in the tenant. Who may only write speaks of its own sessions and runs.
        """
        return "" if self.may(Scope.LABEL) else self.name


ANONYMOUS: Final = Caller("anonymous")
"""The caller of every request if no key is asked for."""


def participant_of(sender: str, process: str | None) -> str | None:
    """Return how a process is known: by its id, behind the name of the key that its spans come with.

    So a process id means a process of that key alone, whoever else sends the same. A sender without a process stands
    for all of its processes that have no id. None: neither is known. Names of keys have no slash.
    """
    if not sender:
        return process
    return f"{sender}/{process or ''}"


def sender_of(participant: str) -> str:
    """Return the name of the key that a participant's spans come with; empty if that is not known."""
    sender, slash, _ = participant.partition("/")
    return sender if slash else ""


def process_of(participant: str) -> str:
    """Return the process id of a participant; empty if it has none."""
    return participant.partition("/")[2] or ("" if "/" in participant else participant)
