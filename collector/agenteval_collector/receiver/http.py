"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, plain or gzip."""

import math
import zlib
from collections.abc import Mapping
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agenteval_collector.model.telemetry import Signal
from agenteval_collector.receiver.grpc import response
from agenteval_collector.receiver.ingest import Ingest
from agenteval_collector.receiver.otlp_json import parse_json
from agenteval_collector.receiver.validity import Checked
from agenteval_collector.runtime.errors import (
    CollectorError,
    InvalidRequest,
    Overloaded,
    RequestTooLarge,
    RetryableError,
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


def otlp_app(ingest: Ingest) -> Starlette:
    """Return the ASGI application of the OTLP/HTTP port."""

    def route(signal: Signal) -> Route:
        async def export(request: Request) -> Response:
            return await _export(ingest, signal, request)

        return Route(f"/v1/{signal.name.lower()}", export, methods=["POST"])

    return Starlette(routes=[route(signal) for signal in Signal])


async def _export(ingest: Ingest, signal: Signal, request: Request) -> Response:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    answer_as = JSON if media == JSON else PROTOBUF
    try:
        if media not in (PROTOBUF, JSON):
            raise UnsupportedMedia(f"content-type {media!r} is not read: send {PROTOBUF} or {JSON}")
        body = await _body(request, ingest.limits.request)
        checked = await run_in_threadpool(_take, ingest, signal, body, media)
    except CollectorError as error:
        ingest.refused(error)
        return _refusal(error, answer_as)
    except ClientDisconnect:
        return Response(status_code=400)
    return _answer(response(signal, checked), answer_as, 200)


def _take(ingest: Ingest, signal: Signal, body: bytes, media: str) -> Checked:
    if media == JSON:
        body = parse_json(signal, body).SerializeToString()
    return ingest.take(signal, body)


async def _body(request: Request, limit: int) -> bytes:
    """Return the body, decompressed; never more than `limit` bytes of it in memory, whatever it claims to be."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise UnsupportedMedia(f"content-encoding {encoding!r} is not read: send gzip or none")
    gunzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    body = bytearray()
    async for chunk in request.stream():
        try:
            body += gunzip.decompress(chunk, limit + 1 - len(body)) if gunzip else chunk
        except zlib.error as error:
            raise InvalidRequest(f"the body is not gzip: {error}") from error
        if len(body) > limit:
            raise RequestTooLarge(f"the request has more than {limit} bytes: send smaller batches")
    if gunzip and not gunzip.eof:
        raise InvalidRequest("the gzip body ends too early")
    if gunzip and gunzip.unused_data:
        raise InvalidRequest("there is more behind the end of the gzip body: send one gzip member")
    return bytes(body)


def _refusal(error: CollectorError, media: str) -> Response:
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    answer = _answer(status_details(error), media, status)
    if isinstance(error, RetryableError):
        answer.headers["retry-after"] = str(math.ceil(error.retry_after))
    return answer


def _answer(message: Message, media: str, status: int) -> Response:
    content = json_format.MessageToJson(message) if media == JSON else message.SerializeToString()
    return Response(content, status_code=status, media_type=media)
