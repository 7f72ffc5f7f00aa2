"""Explain a failed connection by its address: another port, or TLS on one side only."""

from typing import Final

_WRONG: Final = (
    # gRPC has no code for these. A wording that is not listed goes without advice.
    ("http1.x server", "this port speaks HTTP, not gRPC: 4318 is OTLP/HTTP and 4319 the page, use 4317"),
    ("missing selected ALPN", "this port speaks HTTPS, not gRPC: 4318 is OTLP/HTTP and 4319 the page, use 4317"),
    ("WRONG_VERSION_NUMBER", "this port has no TLS: use http:// instead of https://"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted: give its CA, as certificate=FILE"),
    ("Hostname Verification Check failed", "its certificate is for another name: use that name in the address"),
    ("Socket closed", "it closed the connection: if it has TLS, use https:// instead of http://"),
    ("Connection refused", "nothing listens there: start `agenteval collector`, or set AGENTEVAL_ENDPOINT"),
)


def advice_on(details: str) -> str | None:
    """Return what to do about a connection that failed with these details of gRPC; None where they do not say."""
    return next((advice for wording, advice in _WRONG if wording in details), None)
