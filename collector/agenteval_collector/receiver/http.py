"""Receive OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, plain or gzip.

The memory of all bodies under way is bounded together. Everything here runs on one event loop.
"""

import asyncio
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agenteval_collector.doors.shares import SHARER, Shares
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.receiver.grpc import response
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.validity import Checked
from agenteval_collector.runtime import errors
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.grpc_status import status_details

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
        """Add a piece to a body. Where it does not fit, a body that has taken too long gives up its memory. Raises
        Overloaded where there is none, or where the body had to give up its own."""
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
        """Note that all of a body has come: it keeps its memory from now on. Raises Overloaded where it had to give it
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

    return Starlette(routes=[route(signal) for signal in Signal])


async def _export(ingest: Ingest, bodies: Bodies, signal: Signal, request: Request) -> Response:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    answer_as = JSON if media == JSON else PROTOBUF
    try:
        if media not in (PROTOBUF, JSON):
            raise errors.UnsupportedMedia(f"content-type {media!r} is not read: send {PROTOBUF} or {JSON}")
        with bodies.one(SHARER.get()) as body:
            await _fill(bodies, body, request, ingest.limits.request)
            bodies.complete(body)
            checked = await run_in_threadpool(_take, ingest, signal, body, media)
    except errors.CollectorError as error:
        ingest.refused(error)
        return _refusal(error, answer_as)
    except ClientDisconnect:
        return Response(status_code=400)
    return _answer(response(signal, checked), answer_as, 200)


def _take(ingest: Ingest, signal: Signal, body: Body, media: str) -> Checked:
    content = bytes(body.content)
    return ingest.take_json(signal, content) if media == JSON else ingest.take_request(signal, content)


async def _fill(bodies: Bodies, body: Body, request: Request, limit: int) -> None:
    """Read the body, decompressed. At most `limit` bytes of it are in memory, whatever its headers say."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise errors.UnsupportedMedia(f"content-encoding {encoding!r} is not read: send gzip or none")
    gunzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                for piece in _inflated(gunzip, chunk) if gunzip else (chunk,):
                    if len(body.content) + len(piece) > limit:
                        raise errors.RequestTooLarge(f"the request has more than {limit} bytes: send smaller batches")
                    bodies.add(body, piece)
    except TimeoutError as error:
        raise errors.Unavailable(f"the body did not come within {BODY_SECONDS:g} s; send it again") from error
    if gunzip and not gunzip.eof:
        raise errors.InvalidRequest("the gzip body ends too early")


def _inflated(gunzip: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    piece = b""
    # After a full piece the decompressor may hold more, even where no input is left.
    while chunk or len(piece) == PIECE_BYTES:
        if gunzip.eof and chunk:
            raise errors.InvalidRequest("there is more behind the end of the gzip body: send one gzip member")
        try:
            piece = gunzip.decompress(chunk, PIECE_BYTES)
        except zlib.error as error:
            raise errors.InvalidRequest(f"the body is not gzip: {error}") from error
        yield piece
        chunk = gunzip.unconsumed_tail or gunzip.unused_data


def _refusal(error: errors.CollectorError, media: str) -> Response:
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    answer = _answer(status_details(error), media, status)
    if isinstance(error, errors.RetryableError):
        answer.headers["retry-after"] = str(math.ceil(error.retry_after))
    return answer


def _answer(message: Message, media: str, status: int) -> Response:
    content = json_format.MessageToJson(message) if media == JSON else message.SerializeToString()
    return Response(content, status_code=status, media_type=media)
