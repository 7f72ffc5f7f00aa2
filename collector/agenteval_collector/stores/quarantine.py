"""Set input aside on which the process has died twice, or that cannot be read, so that everything else goes on.

The item says what and why. The input itself stays where it is, in the log: it is deleted there like any other.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, TypeVar

from sqlalchemy import Row, select, update

from agenteval_collector.model.quarantine import InputKind, QuarantineItem, item_id
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.work_in_hand import WorkInHand
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.damaged_rows import DamagedRow, DamagedRows
from agenteval_collector.stores.schema import own, quarantine

T = TypeVar("T")

logger = logging.getLogger(__name__)

FATAL: Final = 2
"""Deaths of the process on the same input, after which it is set aside. One may have had another cause."""
MOST_ITEMS: Final = 500
"""The most items, the newest. Older ones are no longer listed, and still passed over until the next start."""
_SAID: Final = {
    InputKind.REQUEST: "the collector died {} times while it took the spans out of this request",
    InputKind.TRACE: "the collector died {} times while it evaluated this trace",
}

_NEWEST: Final = select(quarantine).where(own(quarantine)).order_by(quarantine.c.since.desc(), quarantine.c.item_id)


def read_quarantine(connection: TenantConnection) -> list[QuarantineItem]:
    """Return what is set aside, the newest first."""
    rows = connection.execute(_NEWEST.limit(MOST_ITEMS))
    return connection.readable(quarantine, rows, _item_of, key=["item_id"])


class QuarantineStore:
    """The items that are set aside. Raises Unavailable if the database refuses."""

    def __init__(self, database: TenantDatabase, damaged: DamagedRows) -> None:
        self._database = database
        self._damaged = damaged

    @property
    def is_shared(self) -> bool:
        """True if other processes use the store, too."""
        return self._database.database.is_shared

    def items(self) -> list[QuarantineItem]:
        """Return what is set aside, the newest first."""
        with self._database.reading() as connection:
            return read_quarantine(connection)

    def take_damaged(self) -> Sequence[DamagedRow]:
        """Return the rows that could not be read since the last call."""
        return self._damaged.take()

    def put(self, item: QuarantineItem) -> None:
        """Keep an item, in place of one with the same id."""
        with self._database.sharing("quarantine") as connection:
            connection.upsert(quarantine, [_row_of(item)])

    def remove(self, kind: InputKind, key: str) -> None:
        """Forget an item."""
        with self._database.sharing("quarantine") as connection:
            connection.delete(quarantine, [{"item_id": item_id(kind, key)}])

    def measure(self, kind: InputKind, key: str, size: int) -> None:
        """Note the size (bytes) of an item that was not measured."""
        mine = update(quarantine).where(own(quarantine), quarantine.c.item_id == item_id(kind, key))
        with self._database.sharing("quarantine") as connection:
            connection.execute(mine.values(size=size))


class Quarantine:
    """Decides what a tenant's stages work on, and what is set aside. Thread-safe.

    Stages hold what they work on; what they died on twice, the next start sets aside. A retry is worked on alone, and
    set aside again if the process dies on it once.
    """

    def __init__(self, store: QuarantineStore, hand: WorkInHand, tenant: str, clock: Clock) -> None:
        self._store = store
        self._hand = hand
        self._tenant = tenant
        self._clock = clock
        # Replaced as a whole, so that any thread may look something up.
        self._items: Mapping[tuple[InputKind, str], QuarantineItem] = {}
        self._lock = threading.Lock()

    def take_up(self) -> None:
        """Set aside what the last processes died on. Call this before any stage starts. Raises Unavailable."""
        self._items = {(item.kind, item.key): item for item in self._store.items()}
        suspects = self._hand.deaths(self._tenant)
        for kind, reason in _SAID.items():
            for suspect in [suspect for suspect in suspects if suspect.kind == kind]:
                if (deaths := suspects[suspect]) >= FATAL or self._is_retried(kind, suspect.key):
                    self.set_aside(kind, suspect.key, reason.format(max(deaths, FATAL)))
                    self._hand.forget([suspect])

    def holds(self, kind: InputKind, key: str) -> bool:
        """Return whether this input is set aside, and not tried again."""
        item = self._items.get((kind, key)) if self._items else None
        return item is not None and not item.is_retried

    def keys(self, kind: InputKind) -> list[str]:
        """Return the keys of all items of a kind."""
        return [key for known, key in self._items if known is kind]

    def in_turn(self, kind: InputKind, inputs: Sequence[T], key_of: Callable[[T], str]) -> Iterator[Sequence[T]]:
        """Yield what is not set aside, in order: suspected input by itself, all other together."""
        together: list[T] = []
        for one in inputs:
            key = key_of(one)
            if self.holds(kind, key):
                continue
            if self._is_retried(kind, key) or self._hand.is_suspected(self._tenant, kind, key):
                if together:
                    yield together
                yield [one]
                together = []
            else:
                together.append(one)
        if together:
            yield together

    def work_on(self, kind: InputKind, keys: Sequence[str]) -> AbstractContextManager[None]:
        """Note that this is worked on until the end of the `with`; retries alone."""
        alone = any(self._is_retried(kind, key) for key in keys)
        return self._hand.hold(self._tenant, kind, keys, alone=alone)

    def set_aside(
        self, kind: InputKind, key: str, reason: str, size: int | None = None, trace_id: str | None = None
    ) -> None:
        """Set input aside. Raises Unavailable."""
        if kind is InputKind.TRACE:
            trace_id = key
        item = QuarantineItem(kind=kind, key=key, since=self._clock.now(), size=size, reason=reason, trace_id=trace_id)
        logger.error("%s is set aside: %s; `agenteval repair --retry %s` tries it again", key, reason, item.item_id)
        with self._lock:
            self._store.put(item)
            self._items = {**self._items, (kind, key): item}

    def measure(self, kind: InputKind, key: str, size: int) -> None:
        """Note the size (bytes) of an item that was not measured. Raises Unavailable."""
        with self._lock:
            item = self._items.get((kind, key))
            if item is not None and item.size is None:
                self._store.measure(kind, key, size)
                self._items = {**self._items, (kind, key): replace(item, size=size)}

    def set_rows_aside(self) -> None:
        """Set aside the rows that could not be read. They are left out wherever they are read. Raises Unavailable."""
        for row in self._store.take_damaged():
            if not self.holds(InputKind.ROW, row.key):
                self.set_aside(InputKind.ROW, row.key, row.reason, trace_id=row.trace_id)

    def retries(self) -> list[QuarantineItem]:
        """Return the items that somebody wants to be tried again, as it is now. Raises Unavailable.

        There are none where several processes share the store: no log there is read from any place.
        """
        if not self._items or self._store.is_shared:
            return []
        with self._lock:
            items = self._store.items()
            self._items = {(item.kind, item.key): item for item in items}
        return [item for item in items if item.is_retried]

    def settle(self, kind: InputKind, key: str) -> None:
        """Forget an item that was tried again, and worked off. Do nothing for other input. Raises Unavailable."""
        if self._is_retried(kind, key):
            with self._lock:
                self._store.remove(kind, key)
                self._items = {known: item for known, item in self._items.items() if known != (kind, key)}
            logger.info("%s is no longer set aside", item_id(kind, key))

    def _is_retried(self, kind: InputKind, key: str) -> bool:
        item = self._items.get((kind, key)) if self._items else None
        return item is not None and item.is_retried


def _row_of(item: QuarantineItem) -> dict[str, object]:
    return {
        "item_id": item.item_id,
        "kind": str(item.kind),
        "key": item.key,
        "trace_id": item.trace_id,
        "since": item.since,
        "size": item.size,
        "reason": item.reason,
        "is_retried": item.is_retried,
    }


def _item_of(row: Row[tuple[object, ...]]) -> QuarantineItem:
    return QuarantineItem(
        kind=InputKind(row.kind),
        key=row.key,
        since=row.since,
        size=row.size,
        reason=row.reason,
        trace_id=row.trace_id,
        is_retried=row.is_retried,
    )
