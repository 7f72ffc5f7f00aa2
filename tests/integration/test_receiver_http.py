import base64
import gzip
import http.client
import json
import ssl
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest
import zstandard
from agenteval_collector.app.collector import Collector
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.ingest.ingest import sender_stamp
from agenteval_collector.runtime.errors import PermanentError
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.certificates import self_signed
from tests.support.databases import locked
from tests.support.eventually import eventually
from tests.support.otlp import log, logs, marked, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector, settings

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    limits = {"max_span_bytes": 100_000, "max_request_bytes": 1_000_000}
    with RunningCollector(tmp_path_factory.mktemp("data"), server=limits) as running:
        yield running


def post(
    collector: RunningCollector, body: bytes, *, media: str = PROTOBUF, path: str = "/v1/traces", **headers: str
) -> httpx.Response:
    headers = {"content-type": media, **{name.replace("_", "-"): value for name, value in headers.items()}}
    url = f"http://{collector.addresses['http']}{path}"
    return httpx.post(url, content=body, headers=headers, timeout=20, trust_env=False)


def otlp_json(request: ExportTraceServiceRequest) -> str:
    """As the OTLP specification writes JSON: ids in hex."""
    document = json_format.MessageToDict(request)
    for of_resource in document["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for each in of_scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in each:
                        each[key] = base64.b64decode(each[key]).hex()
    return json.dumps(document)


def test_protobuf_is_taken_and_answered_in_protobuf(collector: RunningCollector) -> None:
    before = collector.service.pipeline.base.storage.requests.last_offset()
    answer = post(collector, traces(span(1, 1)).SerializeToString())
    assert (answer.status_code, answer.headers["content-type"]) == (200, PROTOBUF)
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert collector.service.pipeline.base.storage.requests.last_offset() == before + 1


def test_json_is_the_same_request_as_protobuf(collector: RunningCollector) -> None:
    request = traces(span(2, 1, parent=7, text="größer", count=3, yes=True), marked(span(2, 3), 2, "p"))
    answer = post(collector, otlp_json(request).encode(), media=f"{JSON}; charset=utf-8")
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, JSON, {})
    [logged] = collector.service.pipeline.base.storage.requests.get(
        [collector.service.pipeline.base.storage.requests.last_offset()]
    )
    assert logged.body == request.SerializeToString() + sender_stamp("anonymous")


def test_logs_have_a_path_of_their_own(collector: RunningCollector) -> None:
    body = logs(log(3, 1, gen_ai__x="y")).SerializeToString()
    assert post(collector, body, path="/v1/logs").status_code == 200


def test_metrics_are_answered_and_dropped(collector: RunningCollector) -> None:
    answer = post(collector, b"any", path="/v1/metrics")
    assert (answer.status_code, answer.content) == (200, b"")
    assert post(collector, b"{}", media=JSON, path="/v1/metrics").json() == {}
    assert "agenteval_collector_metrics_dropped_total" in collector.get("/metrics")


def test_bad_spans_are_rejected_one_by_one(collector: RunningCollector) -> None:
    request = traces(span(4, 1), Span(trace_id=b"no", span_id=b"no"))
    answer = ExportTraceServiceResponse.FromString(post(collector, request.SerializeToString()).content)
    assert answer.partial_success.rejected_spans == 1
    assert post(collector, otlp_json(request).encode(), media=JSON).json()["partialSuccess"]["rejectedSpans"] == "1"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(b'"traceId": "xyz"', "traceId 'xyz' is not hex", id="an id not in hex"),
        pytest.param(b'"name": "\\ud800"', "Span", id="a lone surrogate"),
        pytest.param(b'"name": "\xff"', "Span", id="a byte that is not UTF-8"),
        pytest.param(b'"name": 7', "Span", id="a field of another type"),
        pytest.param(b'"attributes": [7]', "Span", id="an attribute that is a number"),
    ],
)
def test_a_span_that_cannot_be_read_in_json_costs_itself_only(
    collector: RunningCollector, bad: bytes, reason: str
) -> None:
    good = traces(span(7, 1, text="größer"), span(8, 1))
    body = otlp_json(good).encode().replace(b'"spans": [', b'"spans": [{' + bad + b"}, ")
    answer = post(collector, body, media=JSON)
    assert answer.status_code == 200
    refused = answer.json()["partialSuccess"]
    assert refused["rejectedSpans"] == "1"
    assert reason in refused["errorMessage"]
    [logged] = collector.service.pipeline.base.storage.requests.get(
        [collector.service.pipeline.base.storage.requests.last_offset()]
    )
    assert logged.body == good.SerializeToString() + sender_stamp("anonymous")


def test_gzip_is_read(collector: RunningCollector) -> None:
    body = gzip.compress(traces(marked(span(5, 1), 1, "p")).SerializeToString())
    assert post(collector, body, content_encoding="gzip").status_code == 200
    assert collector.scored(trace_id(5).hex())["span_count"] == 1


@pytest.mark.parametrize(
    ("number", "encoding", "compress"),
    [
        pytest.param(21, "deflate", zlib.compress, id="deflate"),
        pytest.param(22, "deflate", lambda body: zlib.compress(body, wbits=-15), id="deflate without a header"),
        pytest.param(23, "zstd", zstandard.compress, id="zstd"),
    ],
)
def test_what_other_senders_compress_with_is_read(
    collector: RunningCollector, number: int, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    body = traces(marked(span(number, 1), 1, "p")).SerializeToString()
    assert post(collector, compress(body), content_encoding=encoding).status_code == 200
    assert collector.scored(trace_id(number).hex())["span_count"] == 1


GOOD = traces(span(6, 1)).SerializeToString()
ZSTD, ZSTD_BOMB = zstandard.compress(GOOD), zstandard.compress(bytes(10_000_000))
DEEP = '{"resourceSpans":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        pytest.param(GOOD, {"media": "text/plain"}, 415, "content-type 'text/plain'", id="text"),
        pytest.param(GOOD, {"media": ""}, 415, "content-type", id="no content type"),
        pytest.param(GOOD, {"content_encoding": "br"}, 415, "content-encoding 'br'", id="brotli"),
        pytest.param(b"\xff\xff", {}, 400, "ExportTraceServiceRequest", id="no protobuf"),
        pytest.param(b"{", {"media": JSON}, 400, "OTLP/JSON", id="no JSON"),
        pytest.param(b"[]", {"media": JSON}, 400, "must be a JSON object, not list", id="a JSON list"),
        pytest.param(b'{"resourceSpans": 7}', {"media": JSON}, 400, "resourceSpans", id="a field of another type"),
        pytest.param(DEEP.encode(), {"media": JSON}, 400, "", id="JSON nested a hundred thousand deep"),
        pytest.param(b"\xff{}", {"media": JSON}, 400, "OTLP/JSON", id="JSON that is not UTF-8"),
        pytest.param(b"1" * 5000, {"media": JSON}, 400, "", id="a number of five thousand digits"),
        pytest.param(b"plain", {"content_encoding": "gzip"}, 400, "not gzip", id="not gzip"),
        pytest.param(gzip.compress(GOOD)[:-9], {"content_encoding": "gzip"}, 400, "too early", id="gzip cut short"),
        pytest.param(gzip.compress(b"")[:-9], {"content_encoding": "gzip"}, 400, "too early", id="gzip without a body"),
        pytest.param(gzip.compress(GOOD) * 2, {"content_encoding": "gzip"}, 400, "send one member", id="gzip twice"),
        pytest.param(bytes(1_000_001), {}, 413, "more than 1000000 bytes", id="over the limit"),
        pytest.param(b"plain", {"content_encoding": "deflate"}, 400, "not deflate", id="not deflate"),
        pytest.param(b"plain", {"content_encoding": "zstd"}, 400, "not zstd", id="not zstd"),
        pytest.param(
            zstandard.compress(GOOD)[:-2], {"content_encoding": "zstd"}, 400, "too early", id="zstd cut short"
        ),
        pytest.param(zstandard.compress(GOOD) * 2, {"content_encoding": "zstd"}, 400, "one frame", id="zstd twice"),
        pytest.param(
            zstandard.compress(bytes(10_000_000)), {"content_encoding": "zstd"}, 413, "1000000", id="a zstd bomb"
        ),
        pytest.param(gzip.compress(bytes(10_000_000)), {"content_encoding": "gzip"}, 413, "1000000", id="a gzip bomb"),
    ],
)
def test_what_cannot_be_read_is_refused_and_says_why(
    collector: RunningCollector, body: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    before = collector.service.pipeline.base.storage.requests.last_offset()
    answer = post(collector, body, **headers)
    assert answer.status_code == status
    if headers.get("media") == JSON:
        said = answer.json()["message"]
    else:
        said = status_pb2.Status.FromString(answer.content).message
    assert message in said
    assert said
    assert collector.service.pipeline.base.storage.requests.last_offset() == before


def test_only_post_is_allowed(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['http']}/v1/traces"
    assert httpx.get(url, trust_env=False).status_code == 405


@pytest.mark.parametrize("port", ["http", "web"])
def test_a_page_cannot_reach_the_collector_under_a_name_of_its_own(collector: RunningCollector, port: str) -> None:
    connection = http.client.HTTPConnection(collector.addresses[port], timeout=10)
    connection.request("POST" if port == "http" else "GET", "/v1/traces", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 421
    connection.close()


def test_senders_are_told_when_to_come_back_while_the_pipeline_is_stuck(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, log={"max_pending_bytes": 2000}) as collector:
        body = logs(log(0, 0, body="x" * 500)).SerializeToString()

        def refused() -> httpx.Response | None:
            answer = post(collector, body, path="/v1/logs")
            return answer if answer.status_code != 200 else None

        with locked(tmp_path / "agenteval.db"):
            answer = eventually(refused, within=60)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    retry = error_details_pb2.RetryInfo()
    assert status_pb2.Status.FromString(answer.content).details[0].Unpack(retry)
    assert retry.retry_delay.ToSeconds() == 1


def test_with_keys_only_their_holders_are_answered(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, server={"keys": ["other", "secret"]}) as collector:
        body = traces(span(1, 1)).SerializeToString()
        assert post(collector, body).status_code == 401
        assert post(collector, body, authorization="Bearer wrong").status_code == 401
        assert post(collector, body, authorization="Bearer secret").status_code == 200
        web = f"http://{collector.addresses['web']}"
        assert httpx.get(f"{web}/readyz", trust_env=False).status_code == 200
        assert httpx.get(f"{web}/metrics", trust_env=False).status_code == 401
        headers = {"authorization": "Bearer secret"}
        assert httpx.get(f"{web}/metrics", headers=headers, trust_env=False).status_code == 200


@pytest.mark.parametrize("port", ["grpc_address", "http_address", "web_address"])
def test_an_address_beyond_loopback_needs_tls_and_keys_or_insecure(tmp_path: Path, port: str) -> None:
    for server in ({}, {"keys": ["secret"]}):
        with pytest.raises(ConfigError, match=rf"server\.{port}: 0\.0\.0\.0 can be reached.*insecure: true"):
            Collector(settings(tmp_path, server={**server, port: "0.0.0.0:0"}))
    with RunningCollector(tmp_path, server={"insecure": True, port: "0.0.0.0:0"}) as collector:
        assert collector.addresses[port.removesuffix("_address")].startswith("0.0.0.0:")


@pytest.mark.parametrize("port", ["grpc", "http", "web"])
def test_a_taken_port_is_named_and_the_others_are_free_again(
    tmp_path: Path, collector: RunningCollector, port: str
) -> None:
    taken = collector.addresses[port]
    with pytest.raises(OSError, match=rf"server\.{port}_address: {taken}"):
        RunningCollector(tmp_path, server={f"{port}_address": taken})
    with RunningCollector(tmp_path):
        pass


def test_a_data_folder_belongs_to_one_collector(tmp_path: Path) -> None:
    with RunningCollector(tmp_path), pytest.raises(ConfigError, match=r"a collector uses .*--data-dir"):
        Collector(settings(tmp_path))
    RunningCollector(tmp_path).stop()


@pytest.mark.parametrize("file", ["agenteval.db", "log.db"])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"no database at all" * 100)
    with pytest.raises(PermanentError, match=file):
        Collector(settings(tmp_path))


def test_with_a_certificate_every_port_speaks_tls(tmp_path: Path) -> None:
    pem, key = self_signed(tmp_path)
    server = {"tls_certificate": str(pem), "tls_key": str(key), "keys": ["secret"]}
    with RunningCollector(tmp_path / "data", server=server) as collector:
        credentials = grpc.ssl_channel_credentials(pem.read_bytes())
        bearer = (("authorization", "Bearer secret"),)
        with grpc.secure_channel(collector.addresses["grpc"], credentials) as channel:
            TraceServiceStub(channel).Export(traces(turn(1, "a", "b")), timeout=20, metadata=bearer)
        trusting = ssl.create_default_context(cafile=str(pem))
        headers = {"authorization": "Bearer secret", "content-type": PROTOBUF}
        with httpx.Client(verify=trusting, headers=headers, trust_env=False) as client:
            body = traces(turn(2, "a", "b")).SerializeToString()
            assert client.post(f"https://{collector.addresses['http']}/v1/traces", content=body).status_code == 200
            assert client.get(f"https://{collector.addresses['web']}/readyz").status_code == 200


def test_half_of_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tls_certificate and tls_key are needed together"):
        Collector(settings(tmp_path, server={"tls_key": str(tmp_path / "key.pem")}))
