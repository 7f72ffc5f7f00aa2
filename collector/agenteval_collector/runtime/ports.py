"""The ports of the runtime: what it needs of a part to report its health, hold its queue and count its memory."""

from collections.abc import Sized
from typing import Protocol, TypeVar

T = TypeVar("T")


class Healthy(Protocol):
    """A part of the collector that knows whether it can do its work."""

    @property
    def health(self) -> str | None:
        """None while it can, else a sentence that says why not. From any thread."""


class BoundedQueue(Sized, Protocol):
    """The items that wait for a component: an `Inbox`, or another bounded queue that can be closed."""

    def close(self) -> None:
        """Take nothing more, and wake the component so that it notices."""


class ItemQueue(Protocol[T]):
    """The items of an inbox, in the order in which they are taken. A deque is one: first in, first out."""

    def append(self, item: T, /) -> None:
        """Add an item."""

    def popleft(self) -> T:
        """Remove and return the next item. Raises IndexError if there is none."""

    def __getitem__(self, index: int, /) -> T:
        """Return the next item, at place 0. Raises IndexError if there is none."""

    def __len__(self) -> int: ...


class Holder(Protocol):
    """A bounded part that knows how much memory its items take."""

    @property
    def held(self) -> int:
        """Bytes; an instant's value. From any thread."""
        ...
