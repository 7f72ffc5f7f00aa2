"""A tenant that sends too much is refused with a delay, by gRPC and by HTTP; others and probes notice nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.databases import locked
from tests.support.eventually import eventually
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

KEYS = [{"name": name, "key": f"{name}-" * 8, "tenant": name[0]} for name in ("a1", "a2", "b1")]


class Sender:
    def __init__(self, collector: RunningCollector, name: str) -> None:
        self._collector = collector
        self._metadata = (("authorization", f"Bearer {f'{name}-' * 8}"),)

    def send(self, *numbers: int) -> grpc.RpcError | None:
        request = traces(*(turn(number, "Where is it?", "There.") for number in numbers))
        try:
            TraceServiceStub(self._collector.channel).Export(request, timeout=20, metadata=self._metadata)
        except grpc.RpcError as error:
            return error
        return None

    def post(self, number: int) -> httpx.Response:
        headers = {"content-type": "application/x-protobuf", **dict(self._metadata)}
        body = traces(turn(number, "Where is it?", "There.")).SerializeToString()
        url = f"http://{self._collector.addresses['http']}/v1/traces"
        return httpx.post(url, content=body, headers=headers, timeout=20, trust_env=False)

    def get(self, path: str) -> httpx.Response:
        url = f"http://{self._collector.addresses['web']}{path}"
        return httpx.get(url, headers=dict(self._metadata), timeout=20, trust_env=False)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    quotas = {"tenant": {"spans": 10}, "key": {"traces": 0.5}}
    with RunningCollector(tmp_path, server={"keys": KEYS, "quotas": quotas}) as running:
        yield running


def test_who_sends_too_much_is_refused_with_a_delay(collector: RunningCollector) -> None:
    first, second, other = (Sender(collector, key["name"]) for key in KEYS)
    assert first.send(*range(1, 41)) is None
    refused = first.send(41)
    assert refused is not None
    assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "the key 'a1' has sent more traces than server.quotas.key.traces allows" in (refused.details() or "")
    delay: Any = dict(cast("Any", refused.trailing_metadata()))["google.rpc.retryinfo-bin"]
    assert 50 < error_details_pb2.RetryInfo.FromString(delay).retry_delay.ToTimedelta().total_seconds() <= 60
    answer = first.post(41)
    assert (answer.status_code, 50 < int(answer.headers["retry-after"]) <= 60) == (429, True)
    # The tenant has room for another key's spans, and then no more; the other tenant is served.
    assert second.send(*range(50, 110)) is None
    assert "the key 'a2'" in (((error := second.send(120)) and error.details()) or "")
    assert other.send(*range(1, 11)) is None
    eventually(lambda: other.get(f"/api/v1/traces/{trace_id(1).hex()}").status_code == 200)
    assert httpx.get(f"http://{collector.addresses['web']}/readyz", trust_env=False).status_code == 200
    series = [line for line in first.get("/metrics").text.splitlines() if "requests_refused_total{" in line]
    assert [line for line in series if 'error_type="QuotaExceeded"' in line and line.endswith(" 3.0")]
    assert "QuotaExceeded" not in other.get("/metrics").text


def test_a_tenant_that_is_late_says_so_in_its_series_and_takes_the_probe_from_nobody(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, server={"keys": KEYS}) as collector:
        first, _, other = (Sender(collector, key["name"]) for key in KEYS)
        assert first.send(1) is None
        eventually(lambda: first.get(f"/api/v1/traces/{trace_id(1).hex()}").status_code == 200)
        with locked(tmp_path / "tenants" / "a" / "agenteval.db"):
            for number in range(2, 42):
                assert first.send(number) is None

            def late() -> bool:
                lines = first.get("/metrics").text.splitlines()
                values = [
                    float(line.split()[-1]) for line in lines if line.startswith("agenteval_collector_late_seconds")
                ]
                return any(value > 1 for value in values)

            eventually(late)
            assert httpx.get(f"http://{collector.addresses['web']}/readyz", trust_env=False).status_code == 200
            assert other.send(1) is None
            eventually(lambda: other.get(f"/api/v1/traces/{trace_id(1).hex()}").status_code == 200)
        eventually(lambda: first.get(f"/api/v1/traces/{trace_id(41).hex()}").status_code == 200, within=60)
