"""The meaning of a failed request: what may be answered later, and what to do about the rest. And a check, for nothing,
whether the endpoint answers: it is asked for its models, and not to judge.
"""

import json
import math
import re
import socket
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import openai

from agenteval_collector.judge.ports import OPENAI, JudgeError, JudgeUnavailable, NoAnswer

LONGEST_REST: Final = 600.0
"""Seconds; an endpoint cannot silence itself for longer."""
LASTING: Final = frozenset({401, 402})
"""The key or the account is wrong: once that is repaired, the same request is answered."""
LASTING_REST: Final = 60.0
"""Seconds until an endpoint is asked again after one of these."""

_PASSING: Final = frozenset({408, 409, 425, 429})
ADVICE: Final = {
    400: "the endpoint does not take this request; check that judge.model answers chat completions of this length",
    401: "check judge.api_key",
    402: "the account has no credit; check it, or judge.api_key",
    403: "the key may not use this model; check judge.api_key and judge.model",
    404: "check judge.model and judge.base_url",
    405: "check judge.base_url",
    413: "the request is too long; lower judge.trace_tokens",
    422: "the endpoint does not take this request; check judge.model and judge.base_url",
    **dict.fromkeys(range(300, 400), "it redirects elsewhere; give the final address as judge.base_url"),
}
"""What to do about a status."""
_DEPTH: Final = 10
"""Errors beneath one another that are looked at: their causes may form a ring."""
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_LISTS_NOTHING: Final = (404, 405, 501)
"""Statuses of an endpoint that is there and has no list of models."""
_SHOWN: Final = 5


def refusal(host: str, error: openai.APIStatusError) -> JudgeError:
    """Make the error for a response with an error status: JudgeUnavailable or NoAnswer.

    The message repeats nothing of the body but its code, because endpoints put keys and parts of the request into it.
    """
    status, code = error.status_code, error.code
    named = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
    said = f"{host}: status {status}{named}"
    # 501 says that it will never be answered.
    if status in _PASSING or (status >= 500 and status != 501):
        return JudgeUnavailable(str(status), said, retry_after=_asked_rest(error.response.headers))
    told = f"{said}: {ADVICE.get(status, 'check judge.base_url and judge.model')}"
    if status in LASTING:
        return JudgeUnavailable(str(status), f"{told}; traces wait until then", retry_after=LASTING_REST, lasting=True)
    return NoAnswer(str(status), told)


def unreachable(host: str, error: BaseException) -> JudgeUnavailable:
    """Make the error for a request without a response, with the reason that is found beneath `error`."""
    problem = _connection_problem(error)
    return JudgeUnavailable("connection_error", f"{host}: {problem}; check judge.base_url and whether it is up")


def _asked_rest(headers: Mapping[str, str]) -> float | None:
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(max(seconds, 0.0), LONGEST_REST) if math.isfinite(seconds) else None


def _connection_problem(error: BaseException) -> str:
    beneath: BaseException | None = error
    for _ in range(_DEPTH):
        match beneath:
            case ConnectionRefusedError():
                return "refuses connections"
            case socket.gaierror():
                return "no address is known by this name"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not accepted ({beneath.verify_message})"
            case ssl.SSLError():
                return f"no TLS with it ({beneath.reason or 'SSLError'})"
            case BaseExceptionGroup():
                beneath = beneath.exceptions[0]
            case None:
                break
            case _:
                beneath = beneath.__cause__ or beneath.__context__
    return type(error).__name__


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
