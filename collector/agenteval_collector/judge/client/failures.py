"""Read from a failed request whether it may be answered later, and what a person should do about it."""

import math
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Final

import openai

from agenteval_collector.judge.ports import JudgeUnavailable, NoAnswer

LONGEST_REST: Final = 600.0
"""Seconds that an endpoint may ask for. It cannot silence itself for longer."""
LASTING: Final = frozenset({401, 402})
"""Statuses of a wrong key or account. Once that is repaired, the same request is answered."""
LASTING_REST: Final = 60.0
"""Seconds until an endpoint is asked again after one of these statuses."""

_PASSING: Final = frozenset({408, 409, 425, 429})
"""Statuses that may pass: Request Timeout, Conflict, Too Early, Too Many Requests. So may most from 500 on."""
_ADVICE: Final = {
    400: "the endpoint does not take this request; check that judge.model answers chat completions of this length",
    401: "check judge.api_key",
    402: "the account has no credit; check it, or judge.api_key",
    403: "the key may not use this model; check judge.api_key and judge.model",
    405: "check judge.base_url",
    413: "the request is too long; lower judge.trace_tokens",
    **dict.fromkeys(range(300, 400), "it redirects elsewhere; give the final address as judge.base_url"),
}
"""The advice for each status."""
_DEPTH: Final = 10
"""The number of nested errors that are looked at. The causes of errors may form a ring."""
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")


def refusal(host: str, error: openai.APIStatusError) -> JudgeUnavailable | NoAnswer:
    """Make the error for a response with an error status: JudgeUnavailable or NoAnswer.

    Of the body, the message repeats only the code. Endpoints put keys and parts of the request into the rest.
    """
    status, code = error.status_code, error.code
    named = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
    failure = f"{host}: status {status}{named}"
    # 501 (Not Implemented) says that the request will never be answered.
    if status in _PASSING or (status >= 500 and status != 501):
        return JudgeUnavailable(str(status), failure, retry_after=_asked_rest(error.response.headers))
    problem = f"{failure}: {_ADVICE.get(status, 'check judge.model and judge.base_url')}"
    if status in LASTING:
        return JudgeUnavailable(
            str(status), f"{problem}; traces wait until then", retry_after=LASTING_REST, lasting=True
        )
    return NoAnswer(str(status), problem)


def unreachable(host: str, error: BaseException) -> JudgeUnavailable:
    """Make the error for a request without a response. Its reason is looked for beneath `error`."""
    problem = _connection_problem(error)
    return JudgeUnavailable("connection_error", f"{host}: {problem}; check judge.base_url and whether it is up")


def never_left(error: BaseException) -> bool:
    """Return whether there was no connection, so that nothing of the request can have been billed."""
    return _connection_cause(error) is not None


def _asked_rest(headers: Mapping[str, str]) -> float | None:
    milliseconds = headers.get("retry-after-ms")
    try:
        seconds = float(headers.get("retry-after", "")) if milliseconds is None else float(milliseconds) / 1000
    except ValueError:
        return None
    return min(max(seconds, 0.0), LONGEST_REST) if math.isfinite(seconds) else None


def _connection_problem(error: BaseException) -> str:
    match _connection_cause(error):
        case ConnectionRefusedError():
            return "refuses connections"
        case socket.gaierror():
            return "no address is known by this name"
        case ssl.SSLError() as failure:
            return f"no TLS with it ({getattr(failure, 'verify_message', failure.reason) or 'SSLError'})"
    return type(error).__name__


def _connection_cause(error: BaseException) -> BaseException | None:
    """Return the error beneath that tells why there was no connection, or None."""
    beneath: BaseException | None = error
    for _ in range(_DEPTH):
        match beneath:
            case ConnectionRefusedError() | socket.gaierror() | ssl.SSLError() | None:
                return beneath
            case BaseExceptionGroup():
                beneath = beneath.exceptions[0]
            case _:
                beneath = beneath.__cause__ or beneath.__context__
    return None
