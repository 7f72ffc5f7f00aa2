"""OTLP trace requests as bytes, written straight from the SDK's spans.

Nine tenths of the cost of the stock exporter go into building protobuf messages. This module writes the wire format of
`opentelemetry/proto/collector/trace/v1` directly (https://protobuf.dev/programming-guides/encoding/). A property test
holds it equal in meaning to the SDK's own encoder. One difference is deliberate: of text that is not valid Unicode, the
valid part is kept, if the SDK loses the whole attribute or request.

Byte literals such as `b"\\x4a"` are tags: eight times the number of a field of the message, plus its wire type (0
varint, 1 fixed64, 2 length-delimited, 5 fixed32). They stand where they are used, because a name would be looked up per
field.
"""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, StatusCode

from otel_agenteval import semconv
from otel_agenteval.context import SpanIdentity
from otel_agenteval.finding import Finding
from otel_agenteval.sending.buffer import EndedSpan

if TYPE_CHECKING:
    from otel_agenteval.proto.v1 import evaluation_pb2 as pb
    from otel_agenteval.sending.redacting import SpanRedaction

EncodedSpan: TypeAlias = tuple[Resource, InstrumentationScope | None, bytes]
"""An encoded span behind its resource and its scope."""

MAX_DEPTH: Final = 30
"""Levels of nesting that an attribute's value may have. Parsers refuse more than 100 nested messages, and a mapping in
a mapping takes three."""

DETECTORS_VERSION: Final = "1"
"""The version of the rules by which `detectors` finds loops. Raise it when the same steps could have other findings."""

_CARRIED: Final = ("kind", "mode", "reason", "agent", "tool", "metadata")
"""The fields of a loop that its span carries."""

_WATCHED_NAMES: Final = frozenset((semconv.AGENTEVAL_DETECTORS, semconv.AGENTEVAL_FINDINGS))
_CACHE_SIZE: Final = 1024
# Longer texts hardly ever repeat, and would make the caches large.
_SHORT: Final = 64
_UINT64: Final = (1 << 64) - 1
_DOUBLE: Final = Struct("<d").pack
_FIXED32: Final = Struct("<I").pack
_TIMES: Final = Struct("<BQBQ").pack
_ONE_BYTE: Final = tuple(bytes((n,)) for n in range(128))
# Bits of `Span.flags`: whether the parent is remote is known, and whether it is.
_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200


class Encoder:
    """Encodes spans, with bounded caches of keys, short values, resources and scopes. For one thread.

    `process_id` is written on every resource, and beside the span count on the span that closes a trace. Without it, a
    request says exactly what the SDK's would. `redaction` replaces content that must not leave; None replaces nothing.
    """

    def __init__(self, process_id: str | None = None, redaction: "SpanRedaction | None" = None) -> None:
        self._redaction = redaction
        self._process = {} if process_id is None else {semconv.AGENTEVAL_PROCESS_ID: process_id}
        self._keys: dict[str, bytes] = {}
        self._pairs: dict[tuple[str, str | int], bytes] = {}
        self._identities: dict[SpanIdentity, tuple[bytes, frozenset[str]]] = {}
        self._watched = self._encoded(b"\x4a", {semconv.AGENTEVAL_DETECTORS: DETECTORS_VERSION})
        self._resources = _Heads()
        self._scopes = _Heads()
        self.lost_attributes = 0
        """Attributes that were left out because OTLP has no form for their value."""

    def span(self, ended: EndedSpan) -> bytes:
        """Return the `Span` message. Raises ValueError or struct.error if a time or an id does not fit its field."""
        span = ended.span
        context = span.get_span_context()
        if context is None:
            raise ValueError(f"span {span.name!r} has no context")
        self._begin_redaction()
        fields = [_ids(context)]
        if context.trace_state:
            state = ",".join([f"{key}={value}" for key, value in context.trace_state.items()])
            fields.append(self._said(b"\x1a", state))
        parent = span.parent
        if parent is not None:
            fields += (b"\x22\x08", parent.span_id.to_bytes(8, "big"))
        fields.append(self._said(b"\x2a", span.name))
        fields += (b"\x30", _varint(span.kind.value + 1))
        fields.append(_TIMES(0x39, span.start_time or 0, 0x41, span.end_time or 0))

        own, own_names = self._own_attributes(ended)
        attributes = ended.attributes
        for names in own_names:
            if not names.isdisjoint(attributes):
                attributes = {key: value for key, value in attributes.items() if key not in names}
        self._attributes(fields, b"\x4a", self._redacted(attributes))
        fields.append(own)
        _count(fields, b"\x50", span.dropped_attributes)
        for event in ended.events:
            _message(fields, b"\x5a", self._event(event))
        _count(fields, b"\x60", span.dropped_events)
        for link in ended.links:
            _message(fields, b"\x6a", self._link(link))
        _count(fields, b"\x70", span.dropped_links)
        status = span.status
        if status.status_code is StatusCode.UNSET and not status.description:
            fields.append(b"\x7a\x00")
        else:
            _message(
                fields,
                b"\x7a",
                self._said(b"\x12", status.description or "") + b"\x18" + _varint(status.status_code.value),
            )
        fields += (b"\x85\x01", _FIXED32(_flags(parent)))
        return b"".join(fields)

    def request(self, spans: Iterable[EncodedSpan]) -> bytes:
        """Return an `ExportTraceServiceRequest` of encoded spans, grouped by resource, then by scope."""
        resources: dict[_Head, dict[_Head, list[bytes]]] = {}
        before: tuple[object, object] | None = None
        fields: list[bytes] = []
        for resource, scope, encoded in spans:
            # Most spans have the resource and scope of the one before them: then nothing is looked up.
            if before is None or before[0] is not resource or before[1] is not scope:
                before = resource, scope
                scopes = resources.setdefault(self._resource(resource), {})
                fields = scopes.setdefault(self._scope(scope), [])
            fields += (b"\x12", _varint(len(encoded)), encoded)
        # All parts are joined once, because each join copies every span.
        request: list[bytes] = []
        for about, scopes in resources.items():
            body = [about.head]
            for within, fields in scopes.items():
                body += (b"\x12", _varint(sum(map(len, (*within, *fields)))), within.head, *fields, within.schema_url)
            body.append(about.schema_url)
            request += (b"\x0a", _varint(sum(map(len, body))), *body)
        return b"".join(request)

    def announcement(self, report: "pb.ReportStartsRequest") -> bytes:
        """Return an announcement as bytes. What it says of spans is redacted in place, as the spans will be."""
        if self._redaction is not None:
            self._redaction.announcement(report)
        return report.SerializeToString()

    def _own_attributes(self, ended: EndedSpan) -> tuple[bytes, list[Set[str]]]:
        """Return the attributes that we add, encoded, and their keys: the span's own attributes must not repeat
        them."""
        own = b""
        taken: list[Set[str]] = []
        if ended.identity is not None:
            own, names = self._identity(ended.identity)
            taken.append(names)
        if ended.loops is not None:
            own += self._watched
            taken.append(_WATCHED_NAMES)
            if ended.loops:
                own += self._encoded(b"\x4a", self._redacted({semconv.AGENTEVAL_FINDINGS: _written(ended.loops)}))
        if ended.span_count is not None:
            marker = {**self._process, semconv.AGENTEVAL_SPAN_COUNT: ended.span_count}
            own += self._encoded(b"\x4a", marker)
            taken.append(marker.keys())
        return own, taken

    def _identity(self, identity: SpanIdentity) -> tuple[bytes, frozenset[str]]:
        identity_fields = self._identities.get(identity)
        if identity_fields is None:
            named = identity.attributes()
            identity_fields = (self._encoded(b"\x4a", named), frozenset(named))
            _remember(self._identities, identity, identity_fields)
        return identity_fields

    def _resource(self, resource: Resource) -> "_Head":
        head = self._resources.get(resource)
        if head is None:
            self._begin_redaction()
            attributes = {**self._redacted(resource.attributes), **self._process}
            encoded = self._encoded(b"\x0a", attributes)
            key = (self._unordered(attributes), resource.schema_url)
            head = self._resources.add(resource, key, encoded, self._schema(resource.schema_url))
        return head

    def _scope(self, scope: InstrumentationScope | None) -> "_Head":
        head = self._scopes.get(scope)
        if head is not None:
            return head
        if scope is None:
            return self._scopes.add(None, None, b"", b"")
        self._begin_redaction()
        attributes = self._redacted(scope.attributes or {})
        encoded = self._said(b"\x0a", scope.name or "") + self._said(b"\x12", scope.version or "")
        key = (scope.name, scope.version, self._unordered(attributes), scope.schema_url)
        encoded += self._encoded(b"\x1a", attributes)
        return self._scopes.add(scope, key, encoded, self._schema(scope.schema_url))

    def _schema(self, url: str | None) -> bytes:
        return self._said(b"\x1a", url) if url else b""

    def _unordered(self, attributes: Mapping[str, Any]) -> Hashable:
        """Return a value that is equal for equal attributes in any order, because the SDK groups by equality."""
        return frozenset(self._encoded(b"\x0a", {key: value}) for key, value in attributes.items())

    def _event(self, event: Event) -> bytes:
        fields = [b"\x09", event.timestamp.to_bytes(8, "little"), self._said(b"\x12", event.name)]
        self._attributes(fields, b"\x1a", self._redacted(event.attributes or {}))
        _count(fields, b"\x20", event.dropped_attributes)
        return b"".join(fields)

    def _link(self, link: Link) -> bytes:
        fields = [_ids(link.context)]
        self._attributes(fields, b"\x22", self._redacted(link.attributes or {}))
        _count(fields, b"\x28", link.dropped_attributes)
        fields += (b"\x35", _FIXED32(_flags(link.context)))
        return b"".join(fields)

    def _begin_redaction(self) -> None:
        """Give the next span, resource or scope a budget of its own."""
        if self._redaction is not None:
            self._redaction.next_span()

    def _said(self, tag: bytes, text: str) -> bytes:
        return _text(tag, text if self._redaction is None else self._redaction.text(text))

    def _redacted(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        return attributes if self._redaction is None else self._redaction.attributes(attributes)

    def _encoded(self, tag: bytes, attributes: Mapping[str, Any]) -> bytes:
        fields: list[bytes] = []
        self._attributes(fields, tag, attributes)
        return b"".join(fields)

    def _attributes(self, fields: list[bytes], tag: bytes, attributes: Mapping[str, Any]) -> None:
        """Append each attribute as a `KeyValue` field. An attribute whose value has no form in OTLP is left out."""
        keys, pairs = self._keys, self._pairs
        for key, value in attributes.items():
            kind = type(value)
            short = kind is int or (kind is str and len(value) <= _SHORT)
            if short and (pair := pairs.get((key, value))) is not None:
                # Names of models, agents and operations, and counts, come on span after span.
                fields += (tag, pair)
                continue
            head = keys.get(key)
            if head is None:
                head = _text(b"\x0a", key)
                _remember(keys, key, head)
            if kind is str:
                text = _utf8(value)
                size = len(text)
                prefix = b"\x0a" + _varint(size)
                prefix = b"%b\x12%b%b" % (head, _varint(len(prefix) + size), prefix)
                prefix = _varint(len(prefix) + size) + prefix
                # Long texts are most of a GenAI span. They are parts of their own, so that the join alone copies them.
                fields += (tag, prefix, text)
                if short:
                    _remember(pairs, (key, value), prefix + text)
                continue
            try:
                encoded = _any_value(value, MAX_DEPTH)
            except (ValueError, TypeError):
                self.lost_attributes += 1
                continue
            encoded = b"%b\x12%b%b" % (head, _varint(len(encoded)), encoded)
            _message(fields, tag, encoded)
            if short:
                _remember(pairs, (key, value), _varint(len(encoded)) + encoded)


class _Head(NamedTuple):
    """An encoded resource or scope: the bytes before its spans, and the schema URL after them."""

    head: bytes
    schema_url: bytes


class _Heads:
    """A cache of heads by object, because hashing a resource costs as much as encoding it. Equal objects share a
    head."""

    def __init__(self) -> None:
        self._by_object: dict[int, tuple[object, _Head]] = {}
        self._by_value: dict[Hashable, _Head] = {}

    def get(self, source: object) -> _Head | None:
        # The entry holds the object itself, so no other object can have its id.
        encoded = self._by_object.get(id(source))
        return encoded[1] if encoded is not None else None

    def add(self, source: object, key: Hashable, encoded: bytes, schema_url: bytes) -> _Head:
        head = self._by_value.get(key)
        if head is None:
            head = _Head(b"\x0a" + _varint(len(encoded)) + encoded, schema_url)
            _remember(self._by_value, key, head)
        _remember(self._by_object, id(source), (source, head))
        return head


def _written(loops: Iterable[Finding]) -> str:
    """Return loops as JSON, in the form in which their span carries them. Ids are left out: the span has them."""
    return json.dumps([{name: getattr(loop, name) for name in _CARRIED} for loop in loops])


def _remember(cache: dict[Any, Any], key: Hashable, value: object) -> None:
    if len(cache) >= _CACHE_SIZE:
        del cache[next(iter(cache))]
    cache[key] = value


def _any_value(value: Any, depth: int) -> bytes:  # noqa: PLR0911
    """Return the `AnyValue` message. Raises ValueError or TypeError if OTLP has no form for the value."""
    if depth < 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if value is None:
        return b""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, str):
        text = _utf8(value)
        return b"\x0a" + _varint(len(text)) + text
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError("an integer of more than 64 bits")
        return b"\x18" + _varint(value & _UINT64)
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, bytes):
        return b"\x3a" + _varint(len(value)) + value
    fields: list[bytes] = []
    if isinstance(value, Sequence):
        for item in value:
            _message(fields, b"\x0a", _any_value(item, depth - 1))
        return _joined(b"\x2a", fields)
    if isinstance(value, Mapping):
        for key, item in value.items():
            encoded = _any_value(item, depth - 1)
            _message(fields, b"\x0a", b"%b\x12%b%b" % (_text(b"\x0a", str(key)), _varint(len(encoded)), encoded))
        return _joined(b"\x32", fields)
    raise TypeError(f"no attribute type: {type(value).__name__}")


def _ids(context: SpanContext) -> bytes:
    return b"\x0a\x10%b\x12\x08%b" % (context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big"))


def _flags(parent: SpanContext | None) -> int:
    return _HAS_IS_REMOTE | _IS_REMOTE if parent is not None and parent.is_remote else _HAS_IS_REMOTE


def _varint(n: int) -> bytes:
    if n < 128:
        return _ONE_BYTE[n]
    if n < 16384:
        return bytes((n & 127 | 128, n >> 7))
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace")


def _text(tag: bytes, text: str) -> bytes:
    encoded = _utf8(text)
    return tag + _varint(len(encoded)) + encoded


def _count(fields: list[bytes], tag: bytes, n: int) -> None:
    if n:
        fields += (tag, _varint(n))


def _message(fields: list[bytes], tag: bytes, body: bytes) -> None:
    fields += (tag, _varint(len(body)), body)


def _joined(tag: bytes, fields: list[bytes]) -> bytes:
    body = b"".join(fields)
    return tag + _varint(len(body)) + body
