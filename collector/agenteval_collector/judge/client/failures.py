"""Why a request has no reply, by HTTP status: what can be tried again, and what to do about the rest."""

import json
import re
import socket
import ssl
from collections.abc import Mapping

from agenteval_collector.judge.client.circuit import FIRST_REST
from agenteval_collector.judge.client.lessons import Form, plainer
from agenteval_collector.judge.client.port import JudgeError, JudgeRefused, JudgeUnavailable
from agenteval_collector.judge.client.retry_after import retry_after

RETRYABLE = frozenset({408, 409, 425, 429})

LASTING = frozenset({401, 402})
"""What is wrong is the key or the account: once that is repaired, the same request is answered."""
LASTING_REST = 60.0
"""Seconds until an endpoint is asked again after one of these."""

_ADVICE = {
    400: "the endpoint does not take this request; check that judge.model answers chat completions of this length",
    401: "check judge.api_key",
    402: "the account has no credit; check it, or judge.api_key",
    403: "the key may not use this model; check judge.api_key and judge.model",
    404: "check judge.model and judge.base_url",
    405: "check judge.base_url",
    413: "the request is too long; lower judge.trace_tokens",
    422: "the endpoint does not take this request; check judge.model and judge.base_url",
}
_WAITS = "; traces wait until then"
_REDIRECT = "it redirects elsewhere; give the final address as judge.base_url"
_DEPTH = 10
"""Errors beneath one another that are looked at."""
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")


class Failed(JudgeUnavailable):
    """One request without an answer; `wish` is the Retry-After that came with it, in seconds. `passing`: the next
    attempt may bring an answer."""

    def __init__(
        self, error_type: str, message: str, *, wish: float | None = None, passing: bool = True, lasting: bool = False
    ) -> None:
        rest = FIRST_REST if wish is None else wish
        super().__init__(error_type, message, retry_after=rest, sent=True, lasting=lasting)
        self.wish = wish
        self.passing = passing


class Unfit(Exception):
    """The endpoint may refuse the form of the request; `plainer` is the next to try, `error` what it is otherwise."""

    def __init__(self, error: JudgeError, plainer: Form) -> None:
        super().__init__(f"next as {plainer}")
        self.error = error
        self.plainer = plainer


def failure(host: str, status: int, headers: Mapping[str, str], body: str, form: Form, now: int) -> Exception:
    """What a response with this status means for a request in this form: Failed, JudgeRefused or Unfit.

    `now` is Unix time in nanoseconds. The messages repeat nothing of the body but its code.
    """
    said = f"{host}: status {status}" + (f" ({word})" if (word := code(body)) else "")
    error: JudgeError
    if retryable(status):
        error = Failed(str(status), said, wish=retry_after(headers, now))
    elif status in LASTING:
        told = f"{said}: {advice(status)}{_WAITS}"
        error = Failed(str(status), told, wish=LASTING_REST, passing=False, lasting=True)
    else:
        error = JudgeRefused(str(status), f"{said}: {advice(status)}")
    form_next = plainer(form, status, body)
    return error if form_next is None else Unfit(error, form_next)


def connection_problem(error: BaseException) -> str:
    """Why there is no connection, from the errors beneath this one; else what this one is called."""
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


def retryable(status: int) -> bool:
    """Whether the same request may be answered later. 501 says that it never will."""
    return status in RETRYABLE or (status >= 500 and status != 501)


def advice(status: int) -> str:
    """What to do about a refusal with this status."""
    if 300 <= status < 400:
        return _REDIRECT
    return _ADVICE.get(status, "check judge.base_url and judge.model")


def code(body: str) -> str | None:
    """The error's code, where the endpoint gives one: a word like `model_not_found`.

    Nothing else of an error's body is repeated, because endpoints put keys and parts of the request into it.
    """
    try:
        error = json.loads(body)["error"]["code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return error if isinstance(error, str) and _CODE.fullmatch(error) else None
