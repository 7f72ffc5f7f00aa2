"""Asks a collector's API, and says in one sentence why it could not be asked."""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from agenteval_collector.runtime.addresses import is_loopback

TIMEOUT_SECONDS = 10.0
MAX_BODY_BYTES = 256 * 1024 * 1024


class ApiError(Exception):
    """No usable answer; the message is a sentence for the user."""


class UnknownError(ApiError):
    """The collector does not know what was asked for."""


class _NoRedirects(HTTPRedirectHandler):
    """The API never redirects; following one could carry the key to somebody else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def get(url: str, path: str, key: str | None) -> str:
    """Return the JSON document at `path` of the collector at `url`, as text.

    Raises ApiError where no collector answers, where it refuses the key, or does not know what was asked for.
    """
    request = _request(url, path, key)
    proxies = [ProxyHandler({})] if is_loopback(urlsplit(url).hostname or "") else []
    try:
        with build_opener(_NoRedirects, *proxies).open(request, timeout=TIMEOUT_SECONDS) as response:
            body: bytes = response.read(MAX_BODY_BYTES + 1)
    except HTTPError as error:
        with error:
            kind = UnknownError if error.code == 404 else ApiError
            raise kind(_refusal(url, error, key)) from error
    except (OSError, HTTPException) as error:
        raise ApiError(f"no collector answers at {url}; start one with `agenteval collector`") from error
    if len(body) > MAX_BODY_BYTES:
        raise ApiError(f"the answer of {url} is larger than {MAX_BODY_BYTES} bytes")
    if not isinstance(_decoded(body), dict):
        raise ApiError(f"what answers at {url} is not a collector: give the address of its web port")
    return body.decode()


def address_parts(address: str) -> SplitResult | None:
    """Return the parts of an address that http or https can reach; None for anything else."""
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable else None


def wants_key(address: str, key: str | None) -> str:
    """Say that the collector did not answer for want of the right key."""
    which = "does not accept this key" if key else "wants a key"
    return f"the collector at {address} {which}: give it with --api-key or AGENTEVAL_API_KEY"


def _request(url: str, path: str, key: str | None) -> Request:
    parts = address_parts(url)
    if parts is None:
        raise ApiError(f"--url is {url!r}, not an address such as http://127.0.0.1:4319")
    headers = {"Accept": "application/json"}
    if key:
        if not (key.isascii() and key.isprintable()):
            raise ApiError("the key holds characters that no HTTP header can carry")
        headers["Authorization"] = f"Bearer {key}"
    return Request(url.rstrip("/") + path, headers=headers)


def _refusal(url: str, error: HTTPError, key: str | None) -> str:
    if error.code == 401:
        return wants_key(url, key)
    match _decoded(error.read(MAX_BODY_BYTES)):
        case {"error": {"message": str(message)}}:
            return message
        case _:
            return f"what answers at {url} is not a collector (status {error.code}): give the address of its web port"


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
