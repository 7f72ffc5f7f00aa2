"""Logged requests, and spans that have arrived.

The sizes were measured: what an object takes in memory beside its own bytes. So bounds in bytes hold.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.model.callers import participant_of
from otel_agenteval.conventions.spans import attributes
from otel_agenteval.model import Json

TRACE_BYTES: Final = 1000
"""An open trace, without its spans and log records."""
OFFSET_BYTES: Final = 60
"""A request that a trace came in."""
COUNTS_BYTES: Final = 900
"""The counts of a trace whose processes count their spans."""
SPAN_BYTES: Final = 190
"""A serialized span of a trace."""
LOG_BYTES: Final = 70
"""A serialized log record of a trace."""
VALUE_BYTES: Final = 200
"""A value of an item in which values stand close together, once it is decoded."""
_SPARSE: Final = 64
"""Bytes of an item for each value in it, from which on its values take no more than its bytes say."""
_FEW: Final = 16
"""Values of any item that its own bytes stand for."""
_VALUE: Final = b"\x12"
"""Stands before the value of each attribute and the name of each event. Texts do not hold this character."""
REQUEST_BYTES: Final = 250
"""A request that waits."""
ARRIVAL_BYTES: Final = 450
"""A decoded span that waits."""
DECODED: Final = 2
"""Bytes in memory for each byte of a decoded span: measured 1.3 in requests of many spans, 2.4 in those of one."""

NO_TRACE: Final = (b"", bytes(16))
"""The trace ids of what belongs to no trace."""


def item_bytes(raw: bytes) -> int:
    """Return the bytes that a serialized span or log record counts for: its own, and more if it has thousands of values
    where others have a text, as each of them is an object while the item is read."""
    # Not by `bytes.count`, which looks at each byte: `replace` searches by memchr, at a third of the cost.
    values = len(raw) - len(raw.replace(_VALUE, b""))
    return len(raw) + VALUE_BYTES * max(0, values - _FEW - len(raw) // _SPARSE)


class Signal(IntEnum):
    """The kind of telemetry in a request."""

    TRACES = 1
    LOGS = 2


_OFFSET_BITS: Final = 48
"""Bits of the number in its partition. In a signed integer of the store, 15 bits are left for the partition."""


def offset_in(partition: int, number: int) -> int:
    """Return the offset of a request that is the `number`th of its partition of the log. A file has one partition, 0,
    in which both are the same."""
    return partition << _OFFSET_BITS | number


def split_offset(offset: int) -> tuple[int, int]:
    """Return the partition of an offset, and the number of the request there."""
    return offset >> _OFFSET_BITS, offset & ((1 << _OFFSET_BITS) - 1)


class LoggedRequest(NamedTuple):
    """A request with its offset in the log. `body` is a serialized OTLP export request."""

    offset: int
    tenant: str
    signal: Signal
    received_at: int
    body: bytes

    @property
    def size(self) -> int:
        """Bytes of memory that it takes while it waits."""
        return REQUEST_BYTES + len(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLag:
    """The lag of scoring behind the log.

    `requests` counts those from the oldest one that is not fully scored. `oldest_age` is the seconds since that one was
    received; a restart of the collector does not reset it.
    """

    requests: int
    oldest_age: float


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of spans or log records. All that came together share one object.

    `resource` is the serialized Resource, `scope` the name of the instrumentation scope. `process` is the process that
    our processor named in the resource, as `participant_of` tells it apart; None if another sender sent them. `service`
    is empty if the resource names none, and `sender` (the name of the key) if that is not known.
    """

    resource: bytes
    scope: str
    process: str | None
    service: str = ""
    sender: str = ""

    def __hash__(self) -> int:
        # Each span is looked up by its bytes and its origin. Bytes know their hash, and few origins share a resource.
        return hash(self.resource)

    @property
    def participant(self) -> str | None:
        """The process, or the sender alone; None if neither is known."""
        return self.process or participant_of(self.sender, None)


class Arrival(NamedTuple):
    """A span that has arrived for the first time. Its trace may be open. The span must not be changed."""

    span: Span
    origin: Origin


# A few services send everything, so their resources are decoded once and not for every trace.
@lru_cache(maxsize=256)
def resource_of(raw: bytes) -> dict[str, Json]:
    """Return the attributes of a serialized Resource. They are shared and must not be changed."""
    return attributes(Resource.FromString(raw).attributes)


class Requests(Protocol):
    """The requests of a log, in a file or in Kafka. Raises Unavailable if they cannot be read or trimmed now."""

    def read(self, start: int) -> Iterable[LoggedRequest]:
        """Return the requests from offset `start` on that are there now."""

    def last_offset(self) -> int:
        """Return the newest offset; 0 for an empty log."""

    def get(self, offsets: Sequence[int]) -> Iterable[LoggedRequest]:
        """Return the requests at these offsets that are still kept, in order."""

    def trim(self, below: int, older_than: int, batch: int, but: Collection[int] = ()) -> int:
        """Forget the first `batch` requests below offset `below` that were received before `older_than` (ns since the
        Unix epoch), except those at the offsets `but`. Return their number."""

    def shutdown(self) -> None:
        """Close the log."""
