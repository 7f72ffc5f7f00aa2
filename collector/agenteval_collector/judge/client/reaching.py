"""Find out whether the judge's endpoint answers, for nothing: it is asked for its models, and not to judge."""

import json
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from agenteval_collector.judge.client.failures import ADVICE, unreachable
from agenteval_collector.judge.client.ports import OPENAI

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_LISTS_NOTHING: Final = (404, 405, 501)
"""Statuses of an endpoint that is there and has no list of models."""
_SHOWN: Final = 5


class _NoRedirects(HTTPRedirectHandler):
    """The key is for the endpoint that was named, and for no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def trouble_reaching(base_url: str | None, api_key: str | None, model: str, timeout: float) -> str | None:
    """Return why the endpoint would not answer for this model; None where nothing speaks against it.

    Waits `timeout` seconds for each step. Repeats nothing of an answer but names of models.
    """
    url = (base_url or OPENAI).rstrip("/")
    host = urlsplit(url).hostname or "the endpoint"
    headers = {"Authorization": f"Bearer {api_key or 'none'}", "Accept": "application/json"}
    try:
        with build_opener(_NoRedirects).open(Request(f"{url}/models", headers=headers), timeout=timeout) as response:
            body = response.read(MAX_BODY_BYTES)
    except HTTPError as error:
        with error:
            if error.code in _LISTS_NOTHING:
                return None
            return f"{host}: status {error.code}: {ADVICE.get(error.code, 'check judge.base_url')}"
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) and isinstance(error.reason, BaseException) else error
        return str(unreachable(host, reason))
    names = _models(body)
    if names and model not in names:
        return f"{host} does not have {model!r}, but {', '.join(names[:_SHOWN])}; check judge.model"
    return None


def _models(body: bytes) -> list[str]:
    """Return the names in a list of models; none where it is in no known form."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return []
    items = document.get("data") if isinstance(document, dict) else None
    return [str(each["id"])[:100] for each in items or [] if isinstance(each, dict) and "id" in each]
