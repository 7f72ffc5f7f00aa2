"""Tenants that send the same ids: each is told what it would be told alone, on every way out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.certificates import self_signed, signed
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer
from tests.support.kept_bytes import kept_bytes
from tests.support.otlp import marked, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.databases

KEYS = [
    {"name": "ann", "key": "of-a", "tenant": "a"},
    {"name": "bob", "key": "of-b", "tenant": "b"},
    {"name": "eve", "key": "of-nobody", "tenant": "nobody"},
    {"name": "root", "key": "of-all"},
    {"name": "prometheus", "key": "of-default", "scopes": ["read"]},
]
ONE = trace_id(1).hex()


class Tenant:
    """What the holder of a key sends and sees."""

    def __init__(self, collector: RunningCollector, key: str) -> None:
        self._collector = collector
        self._metadata = (("authorization", f"Bearer {key}"),)
        self._headers = dict(self._metadata)

    def send(self, *spans: Any) -> None:
        TraceServiceStub(self._collector.channel).Export(traces(*spans), timeout=20, metadata=self._metadata)

    def send_over_http(self, *spans: Any) -> int:
        url = f"http://{self._collector.addresses['http']}/v1/traces"
        headers = {"content-type": "application/x-protobuf", **self._headers}
        return httpx.post(url, content=traces(*spans).SerializeToString(), headers=headers, trust_env=False).status_code

    def call(self, method: str, **request: Any) -> Any:
        stub = EvaluationServiceStub(self._collector.channel)
        kind = getattr(pb, f"{method}Request")
        return getattr(stub, method)(kind(**request), timeout=20, metadata=self._metadata)

    def web(self, path: str) -> httpx.Response:
        url = f"http://{self._collector.addresses['web']}{path}"
        return httpx.get(url, headers=self._headers, trust_env=False, timeout=20)

    def get(self, path: str) -> Any:
        answer = self.web(f"/api/v1/{path}")
        return answer.json() if answer.status_code == 200 else None

    def asked(self, trace: str = ONE) -> str:
        """What the user asked in a trace, once it is scored."""

        def look() -> Any:
            document = self.get(f"traces/{trace}")
            return document if document and document["complete"] else None

        text: str = eventually(look, within=30)["turns"][0]["input"]
        return text

    def series(self, name: str) -> list[str]:
        return [line for line in self.web("/metrics").text.splitlines() if line.startswith(name + "{")]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("data"), server={"keys": KEYS}) as running:
        a, b, default = Tenant(running, "of-a"), Tenant(running, "of-b"), Tenant(running, "of-all")
        watching = b.call("Watch")
        watching.initial_metadata()
        a.send(turn(1, "Where is my order?", "On its way.", session="s"))
        assert a.asked() == "Where is my order?"
        assert b.get(f"traces/{ONE}") is None
        b.send(turn(1, "Book a flight.", "Booked.", session="s"))
        assert b.asked() == "Book a flight."
        heard = next(watching).outcome
        # The first that b hears of is its own: what came of a's trace before was not for it.
        assert (heard.trace_id, heard.session_id) == (ONE, "s")
        watching.cancel()
        default.send(turn(1, "Hello?", "Hi.", session="s"))
        assert default.asked() == "Hello?"
        yield running


@pytest.fixture
def a(collector: RunningCollector) -> Tenant:
    return Tenant(collector, "of-a")


@pytest.fixture
def b(collector: RunningCollector) -> Tenant:
    return Tenant(collector, "of-b")


def test_the_same_ids_are_another_trace_and_another_session_for_each(a: Tenant, b: Tenant) -> None:
    assert (a.asked(), b.asked()) == ("Where is my order?", "Book a flight.")
    for tenant in (a, b):
        [session] = tenant.get("sessions")["items"]
        assert (session["session_id"], session["trace_count"]) == ("s", 1)


def test_over_http_the_key_decides_too(a: Tenant, b: Tenant) -> None:
    assert b.send_over_http(turn(2, "Only b.", "Yes.", session="s2")) == 200
    assert b.asked(trace_id(2).hex()) == "Only b."
    assert a.get(f"traces/{trace_id(2).hex()}") is None
    assert a.get("sessions/s2") is None


def test_the_page_shows_the_callers_own(a: Tenant, b: Tenant) -> None:
    pages = [tenant.web(f"/traces/{ONE}").text for tenant in (a, b)]
    assert ["Where is my order?" in each for each in pages] == [True, False]
    assert ["Book a flight." in each for each in pages] == [False, True]


def test_content_names_no_tenant(a: Tenant, b: Tenant) -> None:
    claimed = turn(3, "I am of a.", "No.", session="s3")
    claimed.attributes.extend(span(3, 9, agenteval__tenant="a", tenant="a").attributes)
    b.send(claimed)
    assert b.asked(trace_id(3).hex()) == "I am of a."
    assert a.get(f"traces/{trace_id(3).hex()}") is None


def test_a_label_is_about_the_callers_trace(a: Tenant, b: Tenant) -> None:
    a.call("LabelTrace", trace_id=ONE, name="task_completion", value=0.0, author="ann", note="late")
    assert [each["note"] for each in a.get(f"traces/{ONE}")["labels"]] == ["late"]
    assert b.get(f"traces/{ONE}")["labels"] == []


def test_an_end_is_that_of_the_callers_session(a: Tenant, b: Tenant) -> None:
    a.call("EndSession", session_id="s")
    eventually(lambda: a.get("sessions/s")["status"] == "ended")
    assert b.get("sessions/s")["status"] == "active"


def test_a_scrape_shows_the_callers_series_and_the_default_administrator_all(
    collector: RunningCollector, a: Tenant, b: Tenant
) -> None:
    name, labels = "agenteval_traces_total", ('agenteval_tenant="a"', 'agenteval_tenant="b"')
    eventually(lambda: a.series(name) and b.series(name))
    assert all(labels[0] in line for line in a.series(name))
    assert all(labels[1] in line for line in b.series(name))
    every, own = Tenant(collector, "of-all"), Tenant(collector, "of-default")
    assert len(eventually(lambda: own.series(name))) == 1
    assert "agenteval_tenant" not in own.web("/metrics").text
    shown = every.series(name)
    assert [sum(label in line for line in shown) for label in labels] == [1, 1]
    assert len(shown) == 3
    page = every.web("/metrics").text.splitlines()
    families = [line.split()[2] for line in page if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


def test_one_who_has_sent_nothing_sees_nothing(collector: RunningCollector) -> None:
    nobody = Tenant(collector, "of-nobody")
    for path in ("sessions", "problems", "agents", "reliability", "quality"):
        assert nobody.get(path)["items"] == []
    assert nobody.web(f"/traces/{ONE}").status_code == 404
    assert not nobody.series("agenteval_traces_total")


def test_each_tenant_has_files_of_its_own_beside_those_of_the_default(collector: RunningCollector) -> None:
    folder = collector.service.pipeline.base.storage.folder
    assert (folder / "agenteval.db").exists()
    assert sorted(each.name for each in (folder / "tenants").iterdir()) == ["a", "b", "nobody"]
    assert b"Book a flight." not in (folder / "agenteval.db-wal").read_bytes()
    assert b"Book a flight." in kept_bytes(folder / "tenants" / "b" / "log.db-wal")


def test_a_tenant_whose_key_is_added_is_served_without_a_restart(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.yaml", ManualClock()
    file.write_text(yaml.safe_dump([{"name": "ann", "key": "of-a", "tenant": "a"}]))
    with RunningCollector(tmp_path / "data", clock, server={"keys_file": str(file)}) as running:
        late = Tenant(running, "of-late")
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            late.send(turn(1, "Too early", "No."))
        file.write_text(yaml.safe_dump([{"name": "late", "key": "of-late", "tenant": "late"}]))
        clock.advance(2)
        late.send(turn(1, "Now?", "Yes."))
        assert late.asked() == "Now?"
    with RunningCollector(tmp_path / "data", clock, server={"keys_file": str(file)}) as again:
        assert Tenant(again, "of-late").asked() == "Now?"


def test_a_tenant_that_cannot_be_served_is_refused_for_now_and_others_are_not(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.yaml", ManualClock()
    file.write_text(yaml.safe_dump([{"name": "ann", "key": "of-a", "tenant": "a"}]))
    with RunningCollector(tmp_path / "data", clock, server={"keys_file": str(file)}) as running:
        entries = [{"name": name, "key": f"of-{name}", "tenant": name} for name in ("a", "broken")]
        file.write_text(yaml.safe_dump(entries))
        clock.advance(2)
        folder = tmp_path / "data" / "tenants" / "broken"
        folder.write_text("no folder")
        broken = Tenant(running, "of-broken")
        with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
            broken.send(turn(1, "Hi", "Hi."))
        assert broken.web("/api/v1/sessions").status_code == 503
        Tenant(running, "of-a").send(turn(1, "Hi", "Hi."))
        assert Tenant(running, "of-a").asked() == "Hi"
        folder.unlink()
        broken.send(turn(1, "Again", "Yes."))
        assert broken.asked() == "Again"


def test_a_client_certificate_decides_as_a_key_does(tmp_path: Path) -> None:
    own = self_signed(tmp_path)
    keys = [{"name": name, "certificate": name, "tenant": name[-1]} for name in ("agent-a", "agent-b")]
    tls = {"tls_certificate": str(own.certificate), "tls_key": str(own.key), "tls_client_ca": str(own.certificate)}
    with RunningCollector(tmp_path / "data", server={**tls, "keys": [*keys, "of-all"]}) as collector:
        for name in ("agent-a", "agent-b"):
            pair = signed(tmp_path, own, name)
            credentials = grpc.ssl_channel_credentials(
                own.certificate.read_bytes(), pair.key.read_bytes(), pair.certificate.read_bytes()
            )
            with grpc.secure_channel(collector.addresses["grpc"], credentials) as channel:
                TraceServiceStub(channel).Export(traces(turn(1, "Who am I?", "Hi.", session=name)), timeout=20)
                stub = EvaluationServiceStub(channel)

                def is_known(session_id: str, stub: EvaluationServiceStub = stub) -> bool:
                    return bool(stub.EndSession(pb.EndSessionRequest(session_id=session_id), timeout=20).known)

                assert eventually(lambda: is_known(name) or None, within=30)  # noqa: B023
                others = "agent-a" if name == "agent-b" else "agent-b"
                assert not is_known(others)


def test_what_one_asks_the_judge_costs_the_other_nothing(tmp_path: Path) -> None:
    config = {"budget": {"requests_per_day": 6}, "model": "m"}
    with (
        JudgeServer() as judge,
        RunningCollector(tmp_path, server={"keys": KEYS}, judge={"base_url": judge.url, **config}) as running,
    ):

        def judged(tenant: Tenant, number: int) -> set[str]:
            tenant.send(*worked(number))

            def look() -> Any:
                found = tenant.get(f"traces/{trace_id(number).hex()}")
                return found if found and found["complete"] and found["status"] != "pending" else None

            outcomes = eventually(look, within=60)["outcomes"]
            return {each["status"] for each in outcomes if each["method"] == "llm"}

        a, b = Tenant(running, "of-a"), Tenant(running, "of-b")
        first = judged(a, 1)
        asked = len(judge.requests)
        assert asked
        assert "over_budget" in {*judged(a, 2), *judged(a, 3), *judged(a, 4)}
        spent = len(judge.requests)
        # The same trace: neither does b find a's answers, nor has a used up b's budget.
        assert judged(b, 1) == first
        assert len(judge.requests) - spent == asked


def worked(number: int) -> list[Any]:
    """A trace in which an agent calls a tool and answers."""
    root = turn(number, f"Where is order {number}?", f"Order {number} arrives on Friday.", session=f"s-{number}")
    del root.attributes[-2:]
    tool = span(
        number, 2, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_order",
        gen_ai__tool__call__arguments=f'{{"order": {number}}}', gen_ai__tool__call__result="on its way",
    )  # fmt: skip
    tool.start_time_unix_nano = root.start_time_unix_nano + 1
    tool.end_time_unix_nano = tool.start_time_unix_nano + 1
    return [tool, marked(root, 2, "p")]
