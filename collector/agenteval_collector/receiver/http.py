"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, plain or gzip."""

import asyncio
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agenteval_collector.doors.shares import SHARER
from agenteval_collector.model.telemetry import Signal
from agenteval_collector.receiver.bodies import BODY_SECONDS, Bodies, Body
from agenteval_collector.receiver.grpc import response
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.validity import Checked
from agenteval_collector.runtime.errors import (
    CollectorError,
    InvalidRequest,
    Overloaded,
    RequestTooLarge,
    RetryableError,
    Unavailable,
    UnsupportedMedia,
)
from agenteval_collector.runtime.rpc import status_details

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


# The first that fits.
_STATUSES: Final[Mapping[type[CollectorError], int]] = {
    UnsupportedMedia: 415,
    RequestTooLarge: 413,
    Overloaded: 429,
    RetryableError: 503,
    CollectorError: 400,
}


PIECE_BYTES: Final = 1024 * 1024
"""Decompressed at once, so that a small chunk cannot become a large one before it is counted."""


def otlp_app(ingest: Ingest, bodies: Bodies) -> Starlette:
    """Return the ASGI application of the OTLP/HTTP port. `bodies` bounds those of the whole process."""

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
            raise UnsupportedMedia(f"content-type {media!r} is not read: send {PROTOBUF} or {JSON}")
        with bodies.one(SHARER.get()) as body:
            await _fill(body, request, ingest.limits.request)
            body.is_complete()
            checked = await run_in_threadpool(_take, ingest, signal, body, media)
    except CollectorError as error:
        ingest.refused(error)
        return _refusal(error, answer_as)
    except ClientDisconnect:
        return Response(status_code=400)
    return _answer(response(signal, checked), answer_as, 200)


def _take(ingest: Ingest, signal: Signal, body: Body, media: str) -> Checked:
    content = bytes(body.content)
    return ingest.take_json(signal, content) if media == JSON else ingest.take(signal, content)


async def _fill(body: Body, request: Request, limit: int) -> None:
    """Read the body, decompressed; never more than `limit` bytes of it are in memory, whatever it claims to be."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise UnsupportedMedia(f"content-encoding {encoding!r} is not read: send gzip or none")
    gunzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                for piece in _inflated(gunzip, chunk) if gunzip else (chunk,):
                    if len(body.content) + len(piece) > limit:
                        raise RequestTooLarge(f"the request has more than {limit} bytes: send smaller batches")
                    body.add(piece)
    except TimeoutError as error:
        raise Unavailable(f"the body did not come within {BODY_SECONDS:g} s; send it again") from error
    if gunzip and not gunzip.eof:
        raise InvalidRequest("the gzip body ends too early")


def _inflated(gunzip: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    piece = b""
    # A full piece may not be all that the decompressor has, even where nothing is left to give it.
    while chunk or len(piece) == PIECE_BYTES:
        if gunzip.eof and chunk:
            raise InvalidRequest("there is more behind the end of the gzip body: send one gzip member")
        try:
            piece = gunzip.decompress(chunk, PIECE_BYTES)
        except zlib.error as error:
            raise InvalidRequest(f"the body is not gzip: {error}") from error
        yield piece
        chunk = gunzip.unconsumed_tail or gunzip.unused_data


def _refusal(error: CollectorError, media: str) -> Response:
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    answer = _answer(status_details(error), media, status)
    if isinstance(error, RetryableError):
        answer.headers["retry-after"] = str(math.ceil(error.retry_after))
    return answer


def _answer(message: Message, media: str, status: int) -> Response:
    content = json_format.MessageToJson(message) if media == JSON else message.SerializeToString()
    return Response(content, status_code=status, media_type=media)
