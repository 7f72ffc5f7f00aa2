"""Where the client sends, by every rule of precedence."""

import pytest

from otel_agenteval.config import Options, resolve

OTEL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://vendor:4317", "OTEL_EXPORTER_OTLP_HEADERS": "x-vendor-key=secret"}
GRPC_EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
HTTP_METRICS = "opentelemetry.exporter.otlp.proto.http.metric_exporter"


@pytest.mark.parametrize(
    ("options", "environ", "modules", "target"),
    [
        pytest.param(Options(), {}, (), "127.0.0.1:4317", id="nothing is set"),
        pytest.param(Options(), OTEL, (), "vendor:4317", id="the OTEL endpoint, free"),
        pytest.param(Options(), {**OTEL, "AGENTEVAL_ENDPOINT": "http://ours:1"}, (), "ours:1", id="ours before OTEL's"),
        pytest.param(
            Options(endpoint="http://arg:2"), {"AGENTEVAL_ENDPOINT": "http://ours:1"}, (), "arg:2", id="argument first"
        ),
        pytest.param(Options(), OTEL, (GRPC_EXPORTER,), "127.0.0.1:4317", id="an exporter of the process uses OTEL's"),
        pytest.param(Options(), OTEL, (HTTP_METRICS,), "127.0.0.1:4317", id="one for another signal uses it"),
        pytest.param(
            Options(),
            {**OTEL, "OTEL_TRACES_EXPORTER": "console,otlp"},
            (),
            "127.0.0.1:4317",
            id="one is named for traces",
        ),
        pytest.param(
            Options(),
            {**OTEL, "OTEL_LOGS_EXPORTER": "otlp_proto_http"},
            (),
            "127.0.0.1:4317",
            id="one is named for logs",
        ),
        pytest.param(Options(), {**OTEL, "OTEL_TRACES_EXPORTER": "none"}, (), "vendor:4317", id="none is named"),
        pytest.param(
            Options(), {**OTEL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, (), "127.0.0.1:4317", id="it is HTTP"
        ),
        pytest.param(Options(), {**OTEL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, (), "vendor:4317", id="it is gRPC"),
        pytest.param(Options(endpoint="http://host"), {}, (), "host:4317", id="no port is gRPC's port"),
        pytest.param(Options(endpoint="host:9"), {}, (), "host:9", id="no scheme"),
        pytest.param(Options(endpoint="HTTP://host:9/"), {}, (), "host:9", id="a scheme in capitals"),
        pytest.param(
            Options(),
            {"OTEL_EXPORTER_OTLP_ENDPOINT": " http://v:9/otlp "},
            (),
            "v:9",
            id="OTEL's with a path",
        ),
        pytest.param(Options(endpoint="http://[::1]:9/"), {}, (), "[::1]:9", id="an IPv6 address"),
    ],
)
def test_endpoint_by_precedence(
    options: Options, environ: dict[str, str], modules: tuple[str, ...], target: str
) -> None:
    assert resolve(options, environ, modules).target == target


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"AGENTEVAL_ENDPOINT": "http://ours:1"}, id="with our endpoint"),
        pytest.param({"OTEL_TRACES_EXPORTER": "otlp"}, id="with the default endpoint"),
    ],
)
def test_vendors_key_and_tls_never_reach_us(environ: dict[str, str]) -> None:
    tls = {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.pem", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    destination = resolve(Options(), {**OTEL, **tls, **environ}, ())
    assert (destination.headers, destination.certificate, destination.gzip) == ((), None, False)


def test_otel_endpoint_comes_with_its_headers_tls_and_compression() -> None:
    environ = {
        **OTEL,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://vendor",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.pem",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/key.pem",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/cert.pem",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    destination = resolve(Options(), environ, ())
    assert destination.headers == (("x-vendor-key", "secret"),)
    assert (destination.certificate, destination.client_key) == ("/ca.pem", "/key.pem")
    assert (destination.client_certificate, destination.gzip, destination.secure) == ("/cert.pem", True, True)


@pytest.mark.parametrize(
    ("endpoint", "insecure", "secure"),
    [
        pytest.param("http://a:1", None, False, id="http is plain"),
        pytest.param("https://a:1", None, True, id="https is TLS"),
        pytest.param("a:1", None, False, id="no scheme is plain"),
        pytest.param("a:1", False, True, id="no scheme and not insecure is TLS"),
    ],
)
def test_scheme_and_option_decide_on_tls(endpoint: str, insecure: bool | None, secure: bool) -> None:
    assert resolve(Options(endpoint=endpoint, insecure=insecure), {}, ()).secure is secure


def test_otel_endpoint_without_scheme_is_tls_unless_declared_insecure() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "vendor:4317"}
    assert resolve(Options(), environ, ()).secure
    assert not resolve(Options(), {**environ, "OTEL_EXPORTER_OTLP_INSECURE": "true"}, ()).secure


def test_headers_of_ours_add_up_and_the_argument_wins() -> None:
    environ = {"AGENTEVAL_HEADERS": "x-team=a%20b,x-env=test", "AGENTEVAL_API_KEY": "k"}
    headers = resolve(Options(headers={"X-Env": "prod"}), environ, ()).headers
    assert dict(headers) == {"x-team": "a b", "x-env": "prod", "authorization": "Bearer k"}


def test_secrets_stay_out_of_what_is_printed() -> None:
    options = Options(headers={"authorization": "Bearer k-secret"})
    assert "k-secret" not in repr(options) + repr(resolve(options, {}, ()))


@pytest.mark.parametrize(
    ("options", "environ", "message"),
    [
        pytest.param(Options(endpoint="ftp://a:1"), {}, "the endpoint argument is 'ftp://a:1'", id="a foreign scheme"),
        pytest.param(Options(endpoint="http://a:port"), {}, "http://a:port", id="a port that is no number"),
        pytest.param(Options(endpoint=""), {}, "endpoint argument is ''", id="an empty argument"),
        pytest.param(Options(endpoint="nonsense"), {}, "'nonsense': give http://host:port", id="a word"),
        pytest.param(Options(endpoint=" http://a:1"), {}, "' http://a:1'", id="a space before"),
        pytest.param(Options(endpoint="http://a :1"), {}, "'http://a :1'", id="a space inside"),
        pytest.param(Options(endpoint="http://a:1/v1/traces"), {}, "and no path", id="a path"),
        pytest.param(Options(endpoint="http://a:1?x=y"), {}, "'http://a:1\\?x=y'", id="a query"),
        pytest.param(Options(endpoint="http://a:0"), {}, "'http://a:0'", id="port 0"),
        pytest.param(Options(endpoint="http://[::1"), {}, "give http://host:port", id="half an IPv6 address"),
        pytest.param(Options(endpoint=4317), {}, "the endpoint argument is 4317", id="a number"),  # type: ignore[arg-type]
        pytest.param(Options(), {"AGENTEVAL_ENDPOINT": "nonsense"}, "AGENTEVAL_ENDPOINT is 'nonsense'", id="in ours"),
        pytest.param(Options(), {"AGENTEVAL_ENDPOINT": "http://"}, "AGENTEVAL_ENDPOINT is 'http://'", id="no host"),
        pytest.param(
            Options(endpoint="https://a:1", insecure=True), {}, "contradicts insecure=True", id="TLS declared insecure"
        ),
        pytest.param(
            Options(endpoint="http://a:1", certificate="ca.pem"), {}, "use https://", id="a certificate for plain text"
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: Options, environ: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(options, environ, ())
