from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ["resources", "sender"]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceFrame]
    sender: str
    def __init__(self, resources: _Optional[_Iterable[_Union[ResourceFrame, _Mapping]]] = ..., sender: _Optional[str] = ...) -> None: ...

class ResourceFrame(_message.Message):
    __slots__ = ["resource", "scopes"]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    resource: bytes
    scopes: _containers.RepeatedCompositeFieldContainer[ScopeFrame]
    def __init__(self, resource: _Optional[bytes] = ..., scopes: _Optional[_Iterable[_Union[ScopeFrame, _Mapping]]] = ...) -> None: ...

class ScopeFrame(_message.Message):
    __slots__ = ["items", "scope"]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedScalarFieldContainer[bytes]
    scope: bytes
    def __init__(self, scope: _Optional[bytes] = ..., items: _Optional[_Iterable[bytes]] = ...) -> None: ...
