"""Declare what the store needs of a database beyond SQL."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, Connection, Dialect, Engine, Table

DUTY_LASTS: Final = 15.0
"""Seconds."""


class Use(Enum):
    """How a process uses a database that others can reach, too."""

    ALONE = auto()
    """Nobody else may, but guests."""
    TOGETHER = auto()
    """With others that do the same work: none of them is alone."""
    GUEST = auto()
    """Beside the processes that do the work."""


class WriterLocks(Protocol):
    """How transactions of a tenant write beside each other. What one has changed the others see once it has ended."""

    begin_beside: Sequence[str]
    """Statements that begin such a transaction, once none is alone."""
    lock_sums: str
    """The statement that waits until no other one of them has locked the sums that all add to; this one has locked them
    then, until it ends."""

    def hold(self, connection: Connection, names: Iterable[str]) -> None:
        """Wait until no other one of them holds one of these names; this one holds them then, until it ends. Once in a
        transaction, before the sums: so no two wait for each other."""


class Database(Protocol):
    """A database with the rows of one tenant. Methods raise what SQLAlchemy or the driver raises."""

    name: str
    """For messages; without a password."""
    is_shared: bool
    """Whether other processes write to it, too."""
    begin_snapshot: Sequence[str]
    """Statements that begin a transaction in which all is read as it was at one moment."""
    begin_alone: Sequence[str]
    """Statements that begin a transaction that writes, once no other one of this tenant does."""
    writer_locks: WriterLocks | None
    """None: every transaction that writes is alone."""
    has_said_index: bool
    """Whether `SAID_INDEX` leads to the traces in which something was said; else the database knows by itself."""
    dialect: Dialect
    """Compiles statements for the driver, with parameters by name."""

    def engine(self, *, durable: bool, pool_size: int) -> Engine:
        """Make an engine. Its commits survive this process; `durable` ones the machine, too."""

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Connect for one transaction that changes tables, while nobody else does."""

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows, each with every column of the table by its name, in place of those of the same key."""

    def drop_old(self, connection: Connection, table: Table, before: int) -> bool:
        """Where rows of such a table (`schema.PARTED_BY`) lie apart by time, drop those parts in which all are from
        before that time (ns); return whether they lie so. Else the caller deletes rows."""

    def contains(self, column: ColumnElement[str], text: str) -> ColumnElement[bool]:
        """Make the condition that the text is in the column, as it is."""

    def is_about_values(self, error: Exception) -> bool:
        """Return whether the database refuses these values, and would again."""

    def used_bytes(self, engine: Engine) -> int:
        """Return the bytes that hold something."""

    def give_back(self, engine: Engine, most: int) -> int:
        """Give at most `most` bytes that hold nothing back to the disk; return how many."""

    def scrub(self, engine: Engine, start: int) -> int | None:
        """Overwrite what is left of removed rows, from `start` on; return where to go on, None at the end."""

    def take_duty(self) -> bool:
        """Return whether this process is the one to do what one has to do for all that use the database together. It
        stays so for `DUTY_LASTS` seconds from the call on; then it may be another one, unless this was called again."""

    def close(self) -> None:
        """Let go of what is open beside the engines, after these are disposed. Safe twice."""
