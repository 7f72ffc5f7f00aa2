"""Checks of the agent's side: versions, OpenTelemetry's switches, instrumentations, and the endpoint that spans go to.

The checks of the endpoint ask whether a server answers, whether it takes OTLP over gRPC, and whether it is ours.
"""

import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Final

import grpc

from otel_agenteval.config import AGENTEVAL_ENDPOINT, Destination, Options, resolve
from otel_agenteval.doctor.checks import Check, error, ok, warning
from otel_agenteval.proto.v1.evaluation_pb2 import EndSessionRequest
from otel_agenteval.sending.transport import EXPORT_METHOD, SERVICE, advice_on, open_channel

_RECORDING: Final = (
    "openinference-instrumentation-",
    "opentelemetry-instrumentation-genai-",
    "opentelemetry-instrumentation-google-genai",
    "opentelemetry-instrumentation-openai",
    "opentelemetry-instrumentation-anthropic",
    "opentelemetry-instrumentation-langchain",
    "opentelemetry-instrumentation-llamaindex",
    "opentelemetry-instrumentation-bedrock",
    "opentelemetry-instrumentation-crewai",
    "opentelemetry-instrumentation-mcp",
    "traceloop-sdk",
    "openlit",
    "logfire",
    "langfuse",
    "mlflow",
    "langsmith",
)
"""The beginnings of the names of distributions that record GenAI spans of other libraries."""
_BUILT_IN: Final = ("pydantic-ai", "google-adk", "strands-agents", "litellm", "autogen-core")
"""The beginnings of the names of frameworks that record themselves, or bring an instrumentation."""
_SUGGESTED: Final = {
    "anthropic": "openinference-instrumentation-anthropic",
    "langchain-core": "openinference-instrumentation-langchain",
    "llama-index-core": "openinference-instrumentation-llama-index",
    "openai-agents": "openinference-instrumentation-openai-agents",
    "crewai": "openinference-instrumentation-crewai",
    "google-genai": "openinference-instrumentation-google-genai",
    "dspy": "openinference-instrumentation-dspy",
    "smolagents": "openinference-instrumentation-smolagents",
    "agno": "openinference-instrumentation-agno",
    "haystack-ai": "openinference-instrumentation-haystack",
    "openai": "openinference-instrumentation-openai",
}
"""An instrumentation for each library that has none of its own.

Frameworks stand before the clients that they use, because the first installed library decides the suggestion.
"""
_OF_THE_COLLECTOR: Final = "wordllama"
"""A package that the collector brings. It brings `openai`, too, so beside this package `openai` is no sign of an agent.
"""
_SHOWN: Final = 8
_ALL_SPANS: Final = ("", "always_on", "parentbased_always_on")


def installed() -> dict[str, str]:
    """Return the version of each distribution that this Python can import, by its name in lower case with hyphens."""
    return {
        name.lower().replace("_", "-"): distribution.version
        for distribution in metadata.distributions()
        if (name := distribution.name or "")
    }


def about_environment(environ: Mapping[str, str], versions: Mapping[str, str]) -> Iterator[Check]:
    """Check the versions, OpenTelemetry's switches and the instrumentations of this environment."""
    sdk = versions.get("opentelemetry-sdk", "none")
    ours = versions.get("otel-agenteval", "unknown")
    yield ok("client", f"otel-agenteval {ours}, Python {platform.python_version()}, opentelemetry-sdk {sdk}")
    yield from _about_switches(environ)
    yield _about_instrumentations(versions)


def _about_switches(environ: Mapping[str, str]) -> Iterator[Check]:
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield warning("sdk", "OTEL_SDK_DISABLED=true: no span is recorded in this environment", "unset it")
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if sampler not in _ALL_SPANS:
        yield warning(
            "sampling",
            f"OTEL_TRACES_SAMPLER={sampler}: traces that are not sampled are never seen",
            "unset it, or set parentbased_always_on",
        )


def _about_instrumentations(versions: Mapping[str, str]) -> Check:
    found = sorted(name for name in versions if name.startswith(_RECORDING + _BUILT_IN))
    if found:
        names = [f"{name} {versions[name]}" for name in found[:_SHOWN]]
        return ok("instrumentation", ", ".join(names) + (", ..." if len(found) > _SHOWN else ""))
    missing = f"no package in {sys.prefix} records GenAI spans"
    if suggested := _suggested(versions):
        library, instrumentation = suggested
        return warning(
            "instrumentation",
            f"{missing}; {library} is there",
            f"in the agent's environment: pip install {instrumentation}",
        )
    return warning(
        "instrumentation",
        missing,
        "run `agenteval doctor` in the agent's environment, or install an instrumentation: docs/instrumentations.md",
    )


def _suggested(versions: Iterable[str]) -> tuple[str, str] | None:
    there = set(versions)
    if _OF_THE_COLLECTOR in there:
        there.discard("openai")
    return next(((library, name) for library, name in _SUGGESTED.items() if library in there), None)


TIMEOUT = 5.0
_OTEL_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def about_endpoint(options: Options, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check the endpoint that a processor with these options would send to from this environment."""
    try:
        destination = resolve(options, environ, sys.modules)
    except ValueError as problem:
        yield error("endpoint", str(problem), "correct it; the collector's gRPC port is http://127.0.0.1:4317")
        return
    scheme = "https" if destination.secure else "http"
    fact = f"{scheme}://{destination.target}, from {destination.source}"
    if environ.get(_OTEL_ENDPOINT) and destination.source == "the default":
        advice = f"set {AGENTEVAL_ENDPOINT} if the collector is elsewhere: {_OTEL_ENDPOINT} is another exporter's here"
        yield warning("endpoint", fact, advice)
    else:
        yield ok("endpoint", fact)
    yield from _about_service(destination)


def _about_service(destination: Destination) -> Iterator[Check]:
    try:
        channel = open_channel(destination)
    except OSError as problem:
        yield error("gRPC", f"the TLS files cannot be read: {problem}", "correct the path of the certificate")
        return
    with channel:
        # Any server that takes OTLP accepts a request without spans, and nothing follows from it.
        if (failure := _call(channel, EXPORT_METHOD, b"", destination)) is not None:
            yield _about_failure(destination, failure)
            return
        yield _about_evaluation_service(channel, destination)


def _about_evaluation_service(channel: grpc.Channel, destination: Destination) -> Check:
    failure = _call(channel, f"/{SERVICE}/EndSession", EndSessionRequest().SerializeToString(), destination)
    code = None if failure is None else failure.code()
    # Only a collector of ours knows this question. It may refuse it: no session is named, and the key may only read.
    if code in (
        None,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
    ):
        return ok("gRPC", f"a collector of ours takes OTLP on {destination.target}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return warning(
            "gRPC",
            f"what takes OTLP on {destination.target} is not a collector of ours",
            "stop it, or have it pass traces on to ours (an `otlp` exporter), or start ours on another port "
            f"(`agenteval collector --grpc-address 127.0.0.1:14317`) and set {AGENTEVAL_ENDPOINT}",
        )
    assert failure is not None
    return _about_failure(destination, failure)


def _about_failure(destination: Destination, failure: grpc.RpcError) -> Check:
    code, details = failure.code(), failure.details() or ""
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return error("gRPC", f"{destination.target} wants a key: {details}", "set AGENTEVAL_API_KEY to one of its keys")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        advice = "to send, set AGENTEVAL_API_KEY to a key with the scope write"
        return error("gRPC", f"{destination.target}: {details}", advice)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return error("gRPC", f"{destination.target} speaks gRPC, but takes no OTLP", "give the collector's gRPC port")
    advice = advice_on(details) or f"check the address, or set {AGENTEVAL_ENDPOINT}"
    return error("gRPC", f"{destination.target}: {code.name}: {details[:300]}", advice)


def _call(channel: grpc.Channel, method: str, request: bytes, destination: Destination) -> grpc.RpcError | None:
    """Make a call, and return its error, or None if it succeeded."""
    try:
        # Without serializers, gRPC sends and returns the bytes as they are.
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
        call(request, timeout=TIMEOUT, metadata=destination.headers)
    except grpc.RpcError as failure:
        return failure
    return None
