from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Assembled(_message.Message):
    __slots__ = ["closing", "death", "logs", "missing", "offsets", "origins", "received_at", "revision", "spans", "tenant", "trace_id"]
    CLOSING_FIELD_NUMBER: _ClassVar[int]
    DEATH_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    closing: bytes
    death: bytes
    logs: _containers.RepeatedCompositeFieldContainer[TraceItem]
    missing: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    origins: _containers.RepeatedCompositeFieldContainer[TraceOrigin]
    received_at: int
    revision: int
    spans: _containers.RepeatedCompositeFieldContainer[TraceItem]
    tenant: str
    trace_id: str
    def __init__(self, trace_id: _Optional[str] = ..., tenant: _Optional[str] = ..., revision: _Optional[int] = ..., origins: _Optional[_Iterable[_Union[TraceOrigin, _Mapping]]] = ..., spans: _Optional[_Iterable[_Union[TraceItem, _Mapping]]] = ..., logs: _Optional[_Iterable[_Union[TraceItem, _Mapping]]] = ..., offsets: _Optional[_Iterable[int]] = ..., received_at: _Optional[int] = ..., missing: _Optional[int] = ..., death: _Optional[bytes] = ..., closing: _Optional[bytes] = ...) -> None: ...

class TraceItem(_message.Message):
    __slots__ = ["item", "origin"]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    item: bytes
    origin: int
    def __init__(self, item: _Optional[bytes] = ..., origin: _Optional[int] = ...) -> None: ...

class TraceOrigin(_message.Message):
    __slots__ = ["process", "resource", "scope", "sender", "service"]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    process: str
    resource: bytes
    scope: str
    sender: str
    service: str
    def __init__(self, resource: _Optional[bytes] = ..., scope: _Optional[str] = ..., process: _Optional[str] = ..., service: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...
