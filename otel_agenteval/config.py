"""The settings of the client, from arguments, `AGENTEVAL_*` and `OTEL_*`: where spans go, and what is redacted."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.sdk import environment_variables as env
from opentelemetry.util.re import parse_env_headers

AGENTEVAL_ENDPOINT: Final = "AGENTEVAL_ENDPOINT"
AGENTEVAL_HEADERS: Final = "AGENTEVAL_HEADERS"
AGENTEVAL_REDACT: Final = "AGENTEVAL_REDACT"
AGENTEVAL_API_KEY: Final = "AGENTEVAL_API_KEY"
AGENTEVAL_ATTACH: Final = "AGENTEVAL_ATTACH"
"""Set by `agenteval run` for the processes that it starts."""
DEFAULT_ENDPOINT: Final = "http://127.0.0.1:4317"

_DEFAULT_PORT: Final = 4317
_ENDPOINT: Final = re.compile(r"(https?://[^\s/?#]+|[^\s/?#]+:\d+)/?", re.IGNORECASE)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_EXPORTER_VARIABLES: Final = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER")
_EXPORTER_MODULES: Final = tuple(
    f"opentelemetry.exporter.otlp.proto.{protocol}.{signal}_exporter"
    for protocol in ("grpc", "http")
    for signal in ("trace", "metric", "_log")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a processor about its destination. None means not given.

    `certificate` is the path of a PEM file with the roots to trust.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    insecure: bool | None = None
    certificate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A collector, and how to reach it. `source` names the setting that chose it."""

    target: str
    source: str
    secure: bool = False
    loopback: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    certificate: str | None = None
    client_key: str | None = None
    client_certificate: str | None = None
    gzip: bool = False


def extent_of_redaction(redact: str | None, environ: Mapping[str, str]) -> str | None:
    """Return what is redacted before a span leaves: `secrets`, `all`, or None for nothing. Raises ValueError for any
    other setting."""
    extent = environ.get(AGENTEVAL_REDACT, "").strip().lower() if redact is None else redact
    if extent in ("", "off"):
        return None
    if extent not in ("secrets", "all"):
        source = AGENTEVAL_REDACT if redact is None else "redact"
        raise ValueError(f"{source} is {extent!r}: give secrets, all or off")
    return extent


def resolve(options: Options, environ: Mapping[str, str], modules: Container[str]) -> Destination:
    """Return the destination: the argument, else AGENTEVAL_ENDPOINT, else OTEL_EXPORTER_OTLP_ENDPOINT, else
    127.0.0.1:4317.

    The OTEL endpoint counts only if it speaks gRPC and no other OTLP exporter of the process uses it. The OTEL headers,
    TLS and compression count only together with it: a vendor's key must never reach us. `modules` are the names of
    loaded modules. Raises ValueError for an invalid endpoint, and for options that contradict it.
    """
    if options.endpoint is not None:
        return _destination("the endpoint argument", options.endpoint, options, environ, {})
    if endpoint := environ.get(AGENTEVAL_ENDPOINT):
        return _destination(AGENTEVAL_ENDPOINT, endpoint, options, environ, {})
    if (endpoint := environ.get(env.OTEL_EXPORTER_OTLP_ENDPOINT)) and _otel_endpoint_is_free(environ, modules):
        return _destination(env.OTEL_EXPORTER_OTLP_ENDPOINT, endpoint, options, environ, environ)
    return _destination("the default", DEFAULT_ENDPOINT, options, environ, {})


def _otel_endpoint_is_free(environ: Mapping[str, str], modules: Container[str]) -> bool:
    """Return whether the OTEL endpoint speaks gRPC and nothing else in this process sends to it.

    An exporter that is named, or whose module is loaded, counts as a user of the endpoint: it is better to miss an
    endpoint than to send conversations to a vendor.
    """
    if environ.get(env.OTEL_EXPORTER_OTLP_PROTOCOL, "grpc").strip().lower() not in ("", "grpc"):
        return False
    named = ",".join(environ.get(variable, "") for variable in _EXPORTER_VARIABLES)
    if any(name.strip().startswith("otlp") for name in named.split(",")):
        return False
    return not any(module in modules for module in _EXPORTER_MODULES)


def _destination(
    source: str, endpoint: str, options: Options, environ: Mapping[str, str], otel: Mapping[str, str]
) -> Destination:
    """Return the destination at `endpoint`. `otel` holds the OTEL variables that count for it."""
    is_ours = source != env.OTEL_EXPORTER_OTLP_ENDPOINT
    # The OTEL variable is read more leniently: other exporters read it too, and accept a path or a bare host name.
    if is_ours:
        check_endpoint(source, endpoint)
    scheme, host, target = _parse(source, endpoint)
    insecure = otel.get(env.OTEL_EXPORTER_OTLP_INSECURE, "").strip().lower() == "true"
    return Destination(
        target=target,
        source=source,
        secure=_is_secure(source, endpoint, scheme, options, by_default=not is_ours and not insecure),
        loopback=host in _LOOPBACK,
        headers=_headers(options, environ, otel.get(env.OTEL_EXPORTER_OTLP_HEADERS, "")),
        certificate=options.certificate or otel.get(env.OTEL_EXPORTER_OTLP_CERTIFICATE),
        client_key=otel.get(env.OTEL_EXPORTER_OTLP_CLIENT_KEY),
        client_certificate=otel.get(env.OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE),
        gzip=otel.get(env.OTEL_EXPORTER_OTLP_COMPRESSION, "").strip().lower() == "gzip",
    )


def check_endpoint(source: str, endpoint: object) -> None:
    """Raise ValueError, which names `source`, for anything but the address of a gRPC port."""
    if not isinstance(endpoint, str) or not _ENDPOINT.fullmatch(endpoint):
        raise _no_endpoint(source, endpoint)
    _parse(source, endpoint)


def _parse(source: str, endpoint: str) -> tuple[str, str, str]:
    """Return the scheme, "" if there is none, the host, and host:port."""
    try:
        url = urlsplit(endpoint.strip() if "://" in endpoint else f"//{endpoint.strip()}")
        port = _DEFAULT_PORT if url.port is None else url.port
    except ValueError as error:
        raise _no_endpoint(source, endpoint) from error
    if url.scheme not in ("", "http", "https") or not url.hostname or not port:
        raise _no_endpoint(source, endpoint)
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return url.scheme, url.hostname, f"{host}:{port}"


def _no_endpoint(source: str, endpoint: object) -> ValueError:
    return ValueError(
        f"{source} is {endpoint!r}: give http://host:port (plain) or https://host:port (TLS), gRPC's port and no path, "
        f"for example {DEFAULT_ENDPOINT}"
    )


def _is_secure(source: str, endpoint: str, scheme: str, options: Options, *, by_default: bool) -> bool:
    secure = by_default if scheme == "" else scheme == "https"
    if scheme == "" and options.insecure is not None:
        secure = not options.insecure
    if options.insecure is not None and options.insecure is secure:
        raise ValueError(f"{source} is {endpoint!r}, which contradicts insecure={options.insecure}: leave one out")
    if options.certificate is not None and not secure:
        raise ValueError(f"{source} is {endpoint!r}, plain text, yet a certificate is given: use https://")
    return secure


def _headers(options: Options, environ: Mapping[str, str], otel: str) -> tuple[tuple[str, str], ...]:
    headers = dict(parse_env_headers(otel, liberal=True))
    headers.update(parse_env_headers(environ.get(AGENTEVAL_HEADERS, ""), liberal=True))
    if key := environ.get(AGENTEVAL_API_KEY):
        headers["authorization"] = f"Bearer {key}"
    # gRPC takes metadata keys in lower case only.
    headers.update({name.lower(): value for name, value in (options.headers or {}).items()})
    return tuple(headers.items())
