"""Keys of callers, as the settings give them."""

from typing import Any

from agenteval_collector.config.keys import KeyConfig
from agenteval_collector.ingest.shares import Shares
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.grpc_door import Door, Scopes
from agenteval_collector.serve.doors.grpc_messages import GrpcMessages
from agenteval_collector.serve.doors.keys import KeyRing

from tests.support.clock import ManualClock

MIB = 1024 * 1024


def ring_of(*keys: str | dict[str, Any]) -> KeyRing:
    """The ring of these keys: a text may do everything, a mapping is an entry of `server.keys`."""
    entries = ({"name": f"key-{n}", "key": each} if isinstance(each, str) else each for n, each in enumerate(keys, 1))
    return KeyRing([KeyConfig.model_validate(entry) for entry in entries])


def door(
    scopes: Scopes, *keys: str | dict[str, Any], slots: int = 8, health: str | None = None, clock: Clock | None = None
) -> Door:
    """The door of a gRPC server for the holders of these keys; for everybody where there are none."""
    clock = clock or ManualClock()
    messages = GrpcMessages(slots, MIB, clock)
    return Door(ring_of(*keys), scopes, Audit(clock), slots=Shares(slots), messages=messages, health=lambda: health)
