"""Receive OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, plain or compressed.

The memory of all bodies under way is bounded together. Everything here runs on one event loop.
"""

import asyncio
import logging
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import zstandard
from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agenteval_collector.ingest.grpc import response
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.shares import SHARER, Shares
from agenteval_collector.ingest.validity import Checked
from agenteval_collector.model.callers import Caller
from agenteval_collector.model.counters import Counted
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime import errors
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.grpc_status import status_details

logger = logging.getLogger(__name__)

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


# The first class that fits counts.
_STATUSES: Final[Mapping[type[errors.CollectorError], int]] = {
    errors.UnsupportedMedia: 415,
    errors.RequestTooLarge: 413,
    errors.Overloaded: 429,
    errors.RetryableError: 503,
    errors.CollectorError: 400,
}


PIECE_BYTES: Final = 1024 * 1024
"""Bytes that are decompressed at once, so that a small chunk cannot become a large one before it is counted."""


ZSTD_BYTES: Final = 256
"""Bytes of a zstd body that are decompressed at once. A block of 128 KiB takes 4 bytes at least, so they become 8 MiB
at most."""
BODY_SECONDS: Final = 60.0
"""Seconds that a body may take to come."""
PRESSED_SECONDS: Final = 10.0
"""The same while other bodies need its memory."""


@dataclass(slots=True, eq=False)
class Body:
    """The part of a body that has come, decompressed."""

    who: str
    since: float
    content: bytearray = field(default_factory=bytearray)


class Bodies:
    """All bodies under way. They have at most `limit` bytes together, which callers share."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._bytes = Shares(limit)
        self._clock = clock
        # By age: the first is the oldest.
        self._coming: dict[Body, None] = {}

    @contextmanager
    def one(self, who: str) -> Iterator[Body]:
        """Give an empty body. Its bytes count for the caller `who` until the `with` block ends."""
        body = Body(who, self._clock.monotonic())
        self._coming[body] = None
        try:
            yield body
        finally:
            self._coming.pop(body, None)
            self._bytes.give_back(who, len(body.content))

    def add(self, body: Body, piece: bytes) -> None:
        """Add a piece to a body. If it does not fit, a body that has taken too long gives up its memory. Raises
        Overloaded if there is none, or if the body had to give up its own."""
        self._must_be_coming(body)
        while not self._bytes.take(body.who, len(piece)):
            oldest = next(iter(self._coming))
            if oldest is body or self._clock.monotonic() - oldest.since <= PRESSED_SECONDS:
                raise errors.Overloaded("the requests under way take too much memory; send it again later")
            del self._coming[oldest]
            self._bytes.give_back(oldest.who, len(oldest.content))
            oldest.content = bytearray()
        body.content += piece

    def complete(self, body: Body) -> None:
        """Note that all of a body has come: it keeps its memory from now on. Raises Overloaded if it had to give it
        up."""
        self._must_be_coming(body)
        del self._coming[body]

    def _must_be_coming(self, body: Body) -> None:
        if body not in self._coming:
            raise errors.Overloaded(
                f"the body took more than {PRESSED_SECONDS:g} s, and others came; send it again later"
            )


def otlp_app(ingest: Ingest, bodies: Bodies) -> Starlette:
    """Return the ASGI application of the OTLP/HTTP port. `bodies` are those of the whole process."""

    def route(signal: Signal) -> Route:
        async def export(request: Request) -> Response:
            return await _export(ingest, bodies, signal, request)

        return Route(f"/v1/{signal.name.lower()}", export, methods=["POST"])

    async def drop_metrics(request: Request) -> Response:
        """Answer metrics as if they were kept: agents that send all signals to one endpoint would log errors."""
        async with asyncio.timeout(BODY_SECONDS):
            async for _ in request.stream():
                pass
        ingest.telemetry.count(Counted.METRICS_DROPPED)
        _say_once()
        is_json = request.headers.get("content-type", "").startswith(JSON)
        return Response(b"{}" if is_json else b"", media_type=JSON if is_json else PROTOBUF)

    return Starlette(routes=[*map(route, Signal), Route("/v1/metrics", drop_metrics, methods=["POST"])])


@cache
def _say_once() -> None:
    logger.info("metrics arrive at /v1/metrics, and are dropped: send them to a backend for metrics")


async def _export(ingest: Ingest, bodies: Bodies, signal: Signal, request: Request) -> Response:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    answer_as = JSON if media == JSON else PROTOBUF
    try:
        if media not in (PROTOBUF, JSON):
            raise errors.UnsupportedMedia(f"content-type {media!r} is not read: send {PROTOBUF} or {JSON}")
        with bodies.one(SHARER.get()) as body:
            await _fill(bodies, body, request, ingest.limits.request)
            bodies.complete(body)
            checked = await run_in_threadpool(_take, ingest, signal, body, media, request.state.caller)
    except errors.CollectorError as error:
        ingest.refused(error)
        return _refusal(error, answer_as)
    except ClientDisconnect:
        return Response(status_code=400)
    return _answer(response(signal, checked), answer_as, 200)


def _take(ingest: Ingest, signal: Signal, body: Body, media: str, caller: Caller) -> Checked:
    content = bytes(body.content)
    take = ingest.take_json if media == JSON else ingest.take_request
    return take(signal, content, caller)


async def _fill(bodies: Bodies, body: Body, request: Request, limit: int) -> None:
    """Read the body, decompressed. At most `limit` bytes of it are in memory, whatever its headers say."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", *_DECOMPRESSORS):
        raise errors.UnsupportedMedia(f"content-encoding {encoding!r} is not read: send gzip, deflate, zstd or none")
    stream = _DECOMPRESSORS[encoding]() if encoding in _DECOMPRESSORS else None
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                for piece in stream.pieces(chunk) if stream else (chunk,):
                    if len(body.content) + len(piece) > limit:
                        raise errors.RequestTooLarge(f"the request has more than {limit} bytes: send smaller batches")
                    bodies.add(body, piece)
    except TimeoutError as error:
        raise errors.Unavailable(f"the body did not come within {BODY_SECONDS:g} s; send it again") from error
    if stream and not stream.is_at_end:
        raise errors.InvalidRequest(f"the {encoding} body ends too early")


class _Deflated:
    """Decompresses gzip and deflate. Some clients send deflate without zlib's header."""

    def __init__(self, name: str, wbits: int) -> None:
        self._name = name
        self._stream = zlib.decompressobj(wbits=wbits)
        self._has_begun = False

    @property
    def is_at_end(self) -> bool:
        return self._stream.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        if chunk and not self._has_begun:
            self._has_begun = True
            if self._name == "deflate" and chunk[0] & 0x0F != zlib.DEFLATED:
                self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        piece = b""
        # After a full piece the decompressor may hold more, even if no input is left.
        while chunk or len(piece) == PIECE_BYTES:
            if self._stream.eof and chunk:
                raise errors.InvalidRequest(f"there is more behind the end of the {self._name} body: send one member")
            try:
                piece = self._stream.decompress(chunk, PIECE_BYTES)
            except zlib.error as error:
                raise errors.InvalidRequest(f"the body is not {self._name}: {error}") from error
            yield piece
            chunk = self._stream.unconsumed_tail or self._stream.unused_data


class _Zstandard:
    """Decompresses zstd, in windows of 8 MiB at most. A frame may hold many times its bytes."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=8 * 1024 * 1024).decompressobj()

    @property
    def is_at_end(self) -> bool:
        return self._stream.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        # A few bytes at a time, because a piece of output cannot be bounded otherwise.
        for start in range(0, len(chunk), ZSTD_BYTES):
            try:
                piece = b"" if self._stream.eof else self._stream.decompress(chunk[start : start + ZSTD_BYTES])
            except zstandard.ZstdError as error:
                raise errors.InvalidRequest(f"the body is not zstd: {error}") from error
            if self._stream.eof and (self._stream.unused_data or start + ZSTD_BYTES < len(chunk)):
                raise errors.InvalidRequest("there is more behind the end of the zstd body: send one frame")
            yield piece


_DECOMPRESSORS: Final[Mapping[str, Callable[[], _Deflated | _Zstandard]]] = {
    "gzip": lambda: _Deflated("gzip", 16 + zlib.MAX_WBITS),
    "deflate": lambda: _Deflated("deflate", zlib.MAX_WBITS),
    "zstd": _Zstandard,
}


def _refusal(error: errors.CollectorError, media: str) -> Response:
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    answer = _answer(status_details(error), media, status)
    if isinstance(error, errors.RetryableError):
        answer.headers["retry-after"] = str(math.ceil(error.retry_after))
    return answer


def _answer(message: Message, media: str, status: int) -> Response:
    content = json_format.MessageToJson(message) if media == JSON else message.SerializeToString()
    return Response(content, status_code=status, media_type=media)
