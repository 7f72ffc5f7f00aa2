"""Declare what the store needs of a database beyond SQL."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, Connection, Dialect, Engine, Table

from agenteval_collector.runtime.database_file import DatabaseFile

DUTY_LASTS: Final = 15.0
"""Seconds from a call of `Database.take_duty` for which the process stays on duty."""


class Use(Enum):
    """The ways in which a process uses a database that other processes can reach, too."""

    ALONE = auto()
    """Nobody else may use the database, except guests."""
    TOGETHER = auto()
    """The process shares the database with others that do the same work. None of them may use it `ALONE`."""
    GUEST = auto()
    """The process uses the database beside the processes that do the work."""


class WriterLocks(Protocol):
    """Locks that let several transactions of one tenant write at the same time. The others see the changes of a
    transaction once it has ended."""

    begin_beside: Sequence[str]
    """Statements that begin such a transaction, after a wait until no transaction writes alone."""
    lock_sums: str
    """The statement that locks the sums that all such transactions add to. It waits until no other one has them locked.
    The transaction keeps the lock until it ends."""

    def hold(self, connection: Connection, names: Iterable[str]) -> None:
        """Hold these names until the transaction ends. Wait until no other such transaction holds one of them. Call
        this once in a transaction, before the sums are locked: so no two transactions wait for each other."""


class Database(Protocol):
    """A database with the rows of one tenant. Methods raise the errors of SQLAlchemy or of the driver."""

    name: str
    """For messages; without a password."""
    is_shared: bool
    """True if other processes write to the database, too."""
    begin_snapshot: Sequence[str]
    """Statements that begin a transaction which reads everything as it was at one moment."""
    begin_alone: Sequence[str]
    """Statements that begin a transaction which writes, after a wait until no other one of this tenant writes."""
    writer_locks: WriterLocks | None
    """None if every transaction that writes is alone."""
    has_said_index: bool
    """True if `SAID_INDEX` leads to the traces in which something was said. Otherwise the database finds them by
    itself."""
    dialect: Dialect
    """Compiles statements for the driver, with named parameters."""

    def engine(self, *, durable: bool, pool_size: int) -> Engine:
        """Make an engine. Its commits survive the end of this process. With `durable` they also survive the failure of
        the machine."""

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Connect for one transaction that changes tables. Nobody else changes tables meanwhile."""

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, or update those with the same key (`schema.ON_CONFLICT`). Each row has every column of the table
        by its name."""

    def drop_old(self, connection: Connection, table: Table, before: int) -> bool:
        """Drop the parts of a table in which all rows are from before that time (ns). Return whether the database keeps
        the rows of the table apart by time (`schema.PARTED_BY`). If not, the caller deletes the old rows."""

    def contains(self, column: ColumnElement[str], text: str) -> ColumnElement[bool]:
        """Make the condition that the column contains the text literally, without wildcards."""

    def is_about_values(self, error: Exception) -> bool:
        """Return whether the error is about the values, so that the database would refuse them again."""

    def files(self, engine: Engine) -> Sequence[DatabaseFile]:
        """Return the files that hold the rows; none if a server has them."""

    def take_duty(self) -> bool:
        """Return whether this process is on duty: it does the work that one process does for all that use the database
        together. It stays on duty for `DUTY_LASTS` seconds from this call. Then another process may be on duty, unless
        this method was called again."""

    def close(self) -> None:
        """Close all but the engines. Call it after these were disposed. It is safe to call this twice."""
