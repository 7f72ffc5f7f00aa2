"""HTTP requests to a collector that may be busy: what a read that timed out is answered with is asked for again."""

import json
import ssl
import urllib.error
import urllib.request
from functools import partial
from typing import Any

import httpx

from tests.support.eventually import eventually

PATIENCE = 60.0
"""Seconds for one request; httpx itself waits for 5, which a busy machine may take for anything."""

TOO_LONG = "no answer from the store within"
"""The answer to a read that waited too long for a place or for the store."""

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. Nothing is asked by TLS here, and httpx reads all authorities of the machine for each request."""

get_once = partial(httpx.get, timeout=PATIENCE, verify=_NO_TLS)
post = partial(httpx.post, timeout=PATIENCE, verify=_NO_TLS)
put = partial(httpx.put, timeout=PATIENCE, verify=_NO_TLS)


def get(url: str, **options: Any) -> httpx.Response:
    """Ask, and ask again while the answer is that the store took too long: a busy machine may take seconds for it."""
    [answer] = eventually(lambda: [each for each in [get_once(url, **options)] if TOO_LONG not in each.text])
    return answer


def answered(address: str, path: str) -> Any:
    """What the web port answers: decoded JSON for the API, else text; None for 404."""
    [body] = eventually(lambda: _asked(f"http://{address}{path}"))
    if body is None:
        return None
    return json.loads(body) if path.startswith("/api/") else body.decode()


def _asked(url: str) -> list[bytes | None]:
    """The one body, None for 404; nothing for 503, which a read gets that took too long."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return [answer.read()]
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (404, 503):
                return [None] if error.code == 404 else []
            raise
