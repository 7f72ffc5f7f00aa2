"""The sessions that this process evaluates, if several processes do. The store tells which process has taken a
partition over."""

from collections.abc import Collection

from sqlalchemy import select

from agenteval_collector.runtime.errors import Superseded
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.schema import claims, own

_ALL = select(claims.c.partition, claims.c.generation).where(own(claims))


class Claims:
    """The partitions that this process has taken, each with the generation of its claim. For one thread only.

    While a process is silent for long, another one may take its partitions, and the silent one does not know that. It
    finds out with its next commit, which is not kept. No later commit is kept either, until it gives these partitions
    up or takes them again.
    """

    def __init__(self, database: TenantDatabase) -> None:
        self._database = database
        self._taken: dict[int, int] = {}
        self._is_shared = False

    def take(self, partitions: Collection[int]) -> None:
        """Take partitions over from the processes that had them. Raises Unavailable."""
        self._is_shared = True
        with self._database.writing() as connection:
            before = _generations(connection)
            generations = {partition: before.get(partition, 0) + 1 for partition in partitions}
            connection.upsert(claims, [{"partition": key, "generation": of} for key, of in generations.items()])
        self._taken |= generations

    def give_up(self, partitions: Collection[int]) -> None:
        """Give up these partitions: nothing of them is kept from now on."""
        for partition in partitions:
            self._taken.pop(partition, None)

    def were_taken(self) -> bool:
        """Return whether any process ever took a partition. Raises Unavailable."""
        return bool(self._database.rows(_ALL.limit(1)))

    def check(self, connection: TenantConnection) -> None:
        """Raise Superseded if another process has taken one of the partitions over. Call this in the transaction
        that stores the results. Without any claim there is no other process, so nothing is checked."""
        if not self._is_shared:
            return
        now = _generations(connection)
        gone = sorted(key for key, generation in self._taken.items() if now.get(key) != generation)
        if gone or not self._taken:
            raise Superseded(f"another process has the partitions {gone or 'of these sessions'} by now")


def _generations(connection: TenantConnection) -> dict[int, int]:
    return {row.partition: row.generation for row in connection.execute(_ALL)}
