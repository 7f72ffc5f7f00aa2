"""Why a request has no reply, by HTTP status: what can be tried again, and what to do about the rest."""

import json
import re

RETRYABLE = frozenset({408, 409, 425, 429})

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
_REDIRECT = "it redirects elsewhere; give the final address as judge.base_url"
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")


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
